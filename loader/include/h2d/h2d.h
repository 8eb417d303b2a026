/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file h2d.h
 * libh2d: model weights from storage to an accelerator.
 *
 * Objects are opaque. An `h2d_checkpoint` is an opened and validated header (no weight has been
 * read), an `h2d_device` owns destination memory, an `h2d_weights` is a set of tensors that
 * were completely delivered to a device.
 *
 * Every function returns 0 or a negative `h2d_status`, unless it says otherwise. What went
 * wrong is told, in one line that names file, tensor, rule and offset, through the log callback
 * of the options the object was made with. The library never prints and never exits.
 *
 * Thread-safety: different handles may be used from different threads at the same time. One
 * `h2d_checkpoint` may be read from several threads at once, since it does not change after it
 * was opened; one `h2d_device` may serve several concurrent loads.
 *
 * The only process-wide state is one reference-counted SIGBUS handler, installed while a copy
 * from a mapped file runs; faults outside our mappings go to the previous handler.
 *
 * Structs start with `size`, also those that a call fills in: begin them with H2D_OPTS(), as in
 * `struct h2d_tensor_info info = H2D_OPTS(info)`. Members of later versions then read as zero,
 * which always means "default". H2D_VERSION_MAJOR, H2D_VERSION_MINOR and H2D_VERSION_PATCH are
 * the header's version.
 */
#ifndef H2D_H
#define H2D_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
/* C++ before 20 has no designated initialisers, and warns of members that are left out. */
template <class T> inline T h2d_opts_of()
{
	T opts = T();
	opts.size = sizeof(T);
	return opts;
}
#define H2D_OPTS_OF(var) h2d_opts_of<decltype(var)>()
extern "C" {
#else
#define H2D_OPTS_OF(var)                                                                       \
	{                                                                                      \
		.size = sizeof(var)                                                            \
	}
#endif

#define H2D_VERSION_MAJOR 0
#define H2D_VERSION_MINOR 1
#define H2D_VERSION_PATCH 0

#if defined(H2D_BUILDING) && defined(__GNUC__)
#define H2D_API __attribute__((visibility("default")))
#else
#define H2D_API
#endif

/** Initialiser for a sized option struct: `struct h2d_load_opts o = H2D_OPTS(o);` @since 0.1 */
#define H2D_OPTS(var) H2D_OPTS_OF(var)

/** Result of a call: 0 or one of these. @since 0.1 */
enum h2d_status {
	H2D_OK = 0,
	H2D_E_INVALID = -1,	/**< an argument or option makes no sense */
	H2D_E_NOT_FOUND = -2,	/**< no such file, tensor, device or path */
	H2D_E_FORMAT = -3,	/**< the checkpoint breaks a rule of its format */
	H2D_E_CHANGED = -4,	/**< the file was truncated, replaced or rewritten meanwhile */
	H2D_E_IO = -5,		/**< the system refused or failed a read */
	H2D_E_NOMEM = -6,	/**< host memory could not be had */
	H2D_E_PERMISSION = -7,	/**< the system denied access */
	H2D_E_UNAVAILABLE = -8, /**< device, runtime or kernel facility is not here */
	H2D_E_DEVICE = -9,	/**< the device reported an error */
	H2D_E_DEVICE_MEMORY = -10, /**< device memory could not be had */
	H2D_E_DEVICE_LOST = -11,   /**< the device stopped answering; its handle is of no use */
	H2D_E_CANCELLED = -12,	   /**< the caller's progress callback asked to stop */
	H2D_E_MISMATCH = -13,	   /**< delivered bytes differ from an independent read */
	H2D_E_UNSUPPORTED = -14,   /**< a valid request that this path or device cannot serve */
	H2D_E_INTERNAL = -15,	   /**< a broken promise inside the library */
};

/** Short English name of a status, never NULL. @since 0.1 */
H2D_API const char *h2d_status_string(int status);

/** Version of the library in use, `major << 16 | minor << 8 | patch`. @since 0.1 */
H2D_API unsigned h2d_version(void);

/** Severity of a log line. @since 0.1 */
enum h2d_log_level { H2D_LOG_ERROR, H2D_LOG_WARNING, H2D_LOG_INFO, H2D_LOG_DEBUG };

/**
 * Receives one line (no newline) about an object or a call.
 * May be called from any thread of the library; must not call back into the same handle.
 * @since 0.1
 */
typedef void (*h2d_log_fn)(void *user, enum h2d_log_level level, const char *line);

/* ---------------------------------------------------------------- checkpoints */

struct h2d_checkpoint;

/** How to open a checkpoint. @since 0.1 */
struct h2d_open_opts {
	size_t size;	/**< sizeof(struct h2d_open_opts) */
	h2d_log_fn log; /**< NULL: silent */
	void *log_user;
};

/** Facts about an opened checkpoint. Strings live as long as the checkpoint. @since 0.1 */
struct h2d_checkpoint_info {
	size_t size;	     /**< (in) sizeof(struct h2d_checkpoint_info) */
	const char *path;    /**< as given to h2d_checkpoint_open() */
	const char *format;  /**< "safetensors", "gguf", "cact" or "torch" */
	uint32_t file_count; /**< data files (shards, splits) */
	uint64_t tensor_count;
	uint64_t metadata_count;
	uint64_t size_bytes;	/**< sum of the tensors' sizes */
	uint64_t header_bytes;	/**< bytes of all headers */
	uint64_t ignored_count; /**< tensors in a shard that its index does not list */
};

/** One tensor. Pointers live as long as the checkpoint. @since 0.1 */
struct h2d_tensor_info {
	size_t size;	  /**< (in) sizeof(struct h2d_tensor_info) */
	const char *name; /**< bytes of the name, also NUL-terminated; may hold NULs */
	size_t name_bytes;
	const char *dtype;     /**< spelt as the format spells it, for example "BF16", "Q4_K" */
	const uint64_t *shape; /**< `rank` elements, outermost dimension first */
	uint32_t rank;
	uint32_t file;	       /**< index of the data file, see h2d_checkpoint_file() */
	uint64_t offset_bytes; /**< absolute in that file */
	uint64_t size_bytes;
	/** Strides in elements, `rank` entries, where the format stores a view that is not in C
	 *  order (PyTorch); NULL otherwise. The bytes are those of the span the view touches.
	 */
	const int64_t *strides;
	uint64_t ordinal; /**< place in the format's own listing order */
	/** 1: its bytes are no row-major array of elements or blocks (`strides`, CQ1 … CQ5 and
	 *  RAW of .cact), so that no part of it can be cut out along a dimension. */
	uint32_t whole;
};

/** Type of a metadata value or of an array's elements. @since 0.1 */
enum h2d_value_type {
	H2D_VALUE_U8,
	H2D_VALUE_I8,
	H2D_VALUE_U16,
	H2D_VALUE_I16,
	H2D_VALUE_U32,
	H2D_VALUE_I32,
	H2D_VALUE_F32,
	H2D_VALUE_BOOL,
	H2D_VALUE_STRING,
	H2D_VALUE_ARRAY,
	H2D_VALUE_U64,
	H2D_VALUE_I64,
	H2D_VALUE_F64,
	H2D_VALUE_NULL,
};

/**
 * One metadata entry. Scalars and array elements lie in `data` in the host's byte order without
 * padding; a string is `data_bytes` bytes; in an array of strings each is a u64 length followed
 * by its bytes. Pointers live as long as the checkpoint. @since 0.1
 */
struct h2d_metadata_info {
	size_t size; /**< (in) sizeof(struct h2d_metadata_info) */
	const char *key;
	size_t key_bytes;
	enum h2d_value_type type;
	enum h2d_value_type element_type; /**< of an array */
	uint64_t count;			  /**< elements of an array, else 1 */
	const void *data;
	size_t data_bytes;
};

/**
 * Open and validate a checkpoint; no weight is read.
 *
 * @param path  a file, a directory, an index.json, or any member of a sharded or split set
 * @param opts  or NULL
 * @param out   (out) the checkpoint, owned by the caller, freed by h2d_checkpoint_close()
 * @return 0; H2D_E_NOT_FOUND (file or shard missing), H2D_E_FORMAT, H2D_E_IO, H2D_E_PERMISSION,
 *         H2D_E_NOMEM. Memory use is proportional to the headers and the number of
 *         tensors. @since 0.1
 */
H2D_API int h2d_checkpoint_open(const char *path, const struct h2d_open_opts *opts,
				struct h2d_checkpoint **out);
/** As h2d_checkpoint_open() on a descriptor of a regular file, which is duplicated; `name`
 *  (may be NULL) is used in messages. Splits and indexes are not followed. @since 0.1 */
H2D_API int h2d_checkpoint_open_fd(int fd, const char *name, const struct h2d_open_opts *opts,
				   struct h2d_checkpoint **out);
/** As h2d_checkpoint_open() on `bytes` bytes of memory that the caller keeps alive and
 *  unchanged until close. Paths that need a descriptor are refused on it. @since 0.1 */
H2D_API int h2d_checkpoint_open_memory(const void *data, size_t bytes,
				       const struct h2d_open_opts *opts,
				       struct h2d_checkpoint **out);
/** Release a checkpoint; NULL is allowed. Views taken from it become invalid. @since 0.1 */
H2D_API void h2d_checkpoint_close(struct h2d_checkpoint *ckpt);

/** Facts about a checkpoint. @param info  (in, out) filled up to its `size`. @since 0.1 */
H2D_API int h2d_checkpoint_info(const struct h2d_checkpoint *ckpt,
				struct h2d_checkpoint_info *info);
/** Path of data file `file`, NULL when out of range. @since 0.1 */
H2D_API const char *h2d_checkpoint_file(const struct h2d_checkpoint *ckpt, uint32_t file);
/** Tensor `index` in file order (file, then offset, then listing order). @since 0.1 */
H2D_API int h2d_checkpoint_tensor(const struct h2d_checkpoint *ckpt, uint64_t index,
				  struct h2d_tensor_info *info);
/** Index of the tensor of that name, or H2D_E_NOT_FOUND. @since 0.1 */
H2D_API int h2d_checkpoint_find(const struct h2d_checkpoint *ckpt, const char *name,
				size_t name_bytes, uint64_t *index);
/** Metadata entry `index` (0 … metadata_count-1) in the file's order, or H2D_E_NOT_FOUND past the
 *  end. @since 0.1 */
H2D_API int h2d_checkpoint_metadata(const struct h2d_checkpoint *ckpt, uint64_t index,
				    struct h2d_metadata_info *info);
/**
 * Zero-copy read-only view of a tensor in host memory, valid until h2d_checkpoint_close().
 * The first view of a file maps it; later ones are free. A file truncated after a view was
 * handed out raises SIGBUS in the reader: that is outside the library's guarantee. @since 0.1
 */
H2D_API int h2d_checkpoint_view(struct h2d_checkpoint *ckpt, uint64_t index, const void **data,
				uint64_t *size_bytes);

/* ---------------------------------------------------------------- devices */

struct h2d_device;

/** How to open a device. @since 0.1 */
struct h2d_device_opts {
	size_t size;
	h2d_log_fn log;
	void *log_user;
	/** Nanoseconds after which a copy that does not complete counts as lost; 0: 30 s. */
	uint64_t copy_timeout_ns;
	/** opencl: the caller's cl_context, which holds the memory and the queues that are
	 * given to h2d_load_into(); retained until the device is closed. NULL: one of its own.
	 * Other back-ends ignore it. */
	void *context;
};

/** Facts about an opened device. Strings live as long as the device. @since 0.1 */
struct h2d_device_info {
	size_t size;
	const char *name;	    /**< spec, for example "host" or "hip:0" */
	const char *backend;	    /**< "host", "null", "opencl", "hip", "cuda", "hmm" */
	const char *hardware;	    /**< the vendor's name of it, or "" */
	uint64_t memory_bytes;	    /**< total, 0 when unknown */
	uint64_t memory_free_bytes; /**< 0 when unknown */
	int32_t numa_node;	    /**< -1 when unknown */
	const char *pci_address;    /**< "" when there is none */
	uint32_t unified;  /**< 1: device and host share memory; 0: discrete; 2: unknown */
	uint32_t readable; /**< 1 when delivered bytes can be read back (not on `null`) */
};

/**
 * Open a device by its spec: `host`, `null`, … (see h2d(1)).
 * @return 0; H2D_E_INVALID (spec), H2D_E_UNAVAILABLE, H2D_E_DEVICE, H2D_E_NOMEM. @since 0.1
 */
H2D_API int h2d_device_open(const char *spec, const struct h2d_device_opts *opts,
			    struct h2d_device **out);
/** Close a device; NULL is allowed. All weights on it must have been freed. Buffers under a
 *  copy that never completed are quarantined, not freed. @since 0.1 */
H2D_API void h2d_device_close(struct h2d_device *dev);
/** Facts about a device; free memory as it is now. @since 0.1 */
H2D_API int h2d_device_info(const struct h2d_device *dev, struct h2d_device_info *info);

/* ---------------------------------------------------------------- loading */

struct h2d_weights;

/** Progress, from a thread of the load, about every 100 ms and at the end. Return non-zero to
 *  cancel; the load then ends with H2D_E_CANCELLED at the next chunk. @since 0.1 */
typedef int (*h2d_progress_fn)(void *user, uint64_t done_bytes, uint64_t total_bytes);

/** A tensor has completely arrived; from a thread of the load, `index` as in
 *  h2d_checkpoint_tensor(), or the number of the target for h2d_load_into(). Never while
 *  another callback of the same load runs. What arrived is known to be right only when the load
 *  has returned 0: a file that was rewritten meanwhile is found out at the end. @since 0.1 */
typedef void (*h2d_tensor_done_fn)(void *user, uint64_t index);

/** Selection by name: non-zero keeps tensor `index`. @since 0.1 */
typedef int (*h2d_select_fn)(void *user, uint64_t index, const struct h2d_tensor_info *tensor);

/** What happens to the page cache under a load. @since 0.1 */
enum h2d_cache_mode {
	H2D_CACHE_KEEP, /**< leave it as the load makes it */
	H2D_CACHE_DROP, /**< give read pages back as the load goes on */
};

/** What of a mapped source is made present before it is copied (for measuring). @since 0.1 */
enum h2d_present_mode {
	H2D_PRESENT_NONE,
	H2D_PRESENT_READ,   /**< every page is read first */
	H2D_PRESENT_SPARSE, /**< one byte per 2 MiB span is read first */
};

/**
 * Whether chunk and slots of a staging ring are measured on the first use of a GPU or OpenCL
 * device: at most 64 MiB are copied within about 0.1 s, before the load. What is found is kept
 * in the user's cache directory ($XDG_CACHE_HOME/h2d, else $HOME/.cache/h2d) for later loads.
 * `chunk_bytes` or `staging_bytes` override it; what is read by O_DIRECT is sized for the disk.
 * @since 0.1
 */
enum h2d_calibrate_mode {
	H2D_CALIBRATE_NEVER, /**< neither measure, read nor write */
	H2D_CALIBRATE_AUTO,  /**< use what was kept; else measure, if the load is 64 MiB or more
			      */
	H2D_CALIBRATE_AGAIN, /**< measure whatever was kept */
};

/** How to load. All zero: path `auto`, everything computed. @since 0.1 */
struct h2d_load_opts {
	size_t size;
	h2d_log_fn log;
	void *log_user;
	const char *path;	/**< transfer path by name; NULL: "auto" */
	uint32_t threads;	/**< readers; 0: computed */
	uint64_t chunk_bytes;	/**< unit of reading and copying; 0: computed */
	uint64_t staging_bytes; /**< bound on staging memory; 0: computed */
	uint64_t align_bytes;	/**< alignment of tensors in device memory; 0: 256 */
	enum h2d_cache_mode cache;
	enum h2d_present_mode present;
	h2d_select_fn select; /**< NULL: every tensor */
	void *select_user;
	h2d_progress_fn progress;
	void *progress_user;
	h2d_tensor_done_fn tensor_done;
	void *tensor_done_user;
	uint32_t per_tensor; /**< 1: no coalescing, every tensor timed alone */
	void *stream; /**< h2d_load_into(): the caller's stream of the device's runtime */
	/** What the kernel's driver does when pages of a copy's source change under it, where
	 *  somebody found out (see `h2d probe`): "refresh", "stale", "no_retry"; NULL: unknown.
	 *  `auto` uses a mapping under none of them. */
	const char *kernel_retry_policy;
	const char *trace_path; /**< write a Chrome trace of readers, copies and waits here */
	enum h2d_calibrate_mode calibrate;
};

/** One destination of h2d_load_into(). @since 0.1 */
struct h2d_target {
	size_t size;
	uint64_t tensor;	 /**< index of the tensor */
	void *data;		 /**< device memory of the caller */
	uint64_t capacity_bytes; /**< of `data`, checked */
	/** Byte range of the tensor; `length_bytes` 0: from `begin_bytes` to its end. */
	uint64_t begin_bytes, length_bytes;
	/** 2-D slice instead: `row_count` rows of `row_bytes`, `source_pitch_bytes` apart in
	 * the tensor from `begin_bytes` on, `target_pitch_bytes` apart in `data`; a pitch of 0:
	 * `row_bytes`; `row_count` 0: not a slice. */
	uint64_t row_count, row_bytes, source_pitch_bytes, target_pitch_bytes;
};

/** What a load did, see `h2d load --json` for the meaning of each. Strings live as long as the
 *  weights (or, for h2d_load_into(), as long as the report). @since 0.1 */
struct h2d_report {
	size_t size;
	const char *path_requested;
	const char *path_used;
	const char *reason; /**< why that path, or why it fell back */
	uint64_t plan_ns, allocate_ns, transfer_ns, total_ns;
	uint64_t loaded_bytes; /**< tensor bytes delivered */
	uint64_t read_bytes;   /**< bytes read from storage or cache, overlap included */
	uint64_t tensor_count;
	uint64_t chunk_count, copy_count;
	uint64_t chunk_bytes, staging_bytes;
	uint32_t threads;
	uint64_t max_in_flight_count; /**< most copies under way at once */
	uint64_t quarantined_bytes;   /**< buffers left under copies that never completed */
	/** Bytes by path, for `auto`: `extent_path[i]` served `extent_bytes[i]`. */
	const char *extent_path[8];
	uint64_t extent_bytes[8];
	uint32_t extent_count;
	/** Where the sizes of the staging ring come from: "options", "defaults", "memory"
	 *  (`auto` found little left), "calibration" (of this load or an earlier one on this
	 * device), or "cache" (a calibration that an earlier process kept); NULL: nothing went
	 * through a ring. Static. */
	const char *sizes_from;
	void *owned; /**< what h2d_report_clear() releases; NULL in a report of weights */
};

/** Per-tensor measurements of a load with `per_tensor`. @since 0.1 */
struct h2d_tensor_report {
	size_t size;
	uint64_t
		present_before_bytes; /**< of a mapped source; UINT64_MAX when not applicable */
	uint64_t elapsed_ns;
	int64_t windows; /**< -1 where the device cannot count them */
};

/**
 * Load tensors into memory that the library allocates on `dev`.
 *
 * A file that is truncated, replaced or rewritten meanwhile ends the load with H2D_E_CHANGED.
 * Not to be noticed are an in-place write that restores size and times, and stores through a
 * shared mapping into pages that were dirty before the load, since these move no time.
 *
 * Host memory: staging as reported, and up to 384 bytes a tensor for plan and catalogue.
 *
 * @param ckpt     stays open until the weights are freed when path is `view`
 * @param weights  (out) owned by the caller, freed by h2d_weights_free(); never set to partial
 *                 weights
 * @return 0 or any status above; on failure everything is released. @since 0.1
 */
H2D_API int h2d_load(struct h2d_checkpoint *ckpt, struct h2d_device *dev,
		     const struct h2d_load_opts *opts, struct h2d_weights **weights);
/**
 * Load `count` targets into memory that the caller owns. Returns when all bytes have arrived
 * (with `opts->stream`: copies are ordered in that stream and have completed on return).
 * Targets may share bytes of the file but not of memory: overlapping ones are H2D_E_INVALID
 * (also interleaved rows of different pitches). On failure the memory's contents are undefined.
 * @param report  (out) may be NULL; release its strings with h2d_report_clear(). @since 0.1
 */
H2D_API int h2d_load_into(struct h2d_checkpoint *ckpt, struct h2d_device *dev,
			  const struct h2d_target *targets, size_t count,
			  const struct h2d_load_opts *opts, struct h2d_report *report);
/** Release the strings of a report. Needed for one of h2d_load_into(); does nothing to one of
 *  h2d_weights_report(), whose strings the weights own. NULL is allowed. @since 0.1 */
H2D_API void h2d_report_clear(struct h2d_report *report);

/** What one device gets of a tensor. @since 0.1 */
struct h2d_part {
	size_t size;
	/** Elements [begin, begin+length) along `dimension` (0 is the outermost), delivered
	 *  without gaps; `length` 0: the whole tensor. Of types that pack several elements the
	 *  part must come to whole bytes, and of GGUF's quantized types to whole blocks. A
	 *  tensor that is `whole` (see h2d_tensor_info) is not cut: H2D_E_INVALID. */
	uint32_t dimension;
	uint64_t begin, length;
};

/**
 * What device number `device` gets of a tensor. Asked once for each of both, before anything is
 * read.
 * @param part  (in, out) preset to the whole tensor
 * @return 1: that part; 0: nothing; negative: give up (H2D_E_INVALID). @since 0.1
 */
typedef int (*h2d_split_fn)(void *user, uint64_t index, const struct h2d_tensor_info *tensor,
			    uint32_t device, struct h2d_part *part);

/**
 * Load one checkpoint onto several devices in one go: layer ranges, tensor-parallel slices, or
 * copies. Whatever several of them want of a file is read once.
 *
 * @param devs     `device_count` (1 to 64) opened devices; the same one may be named twice
 * @param split    NULL: by layers. The layer of a tensor is the first number that stands alone
 *                 between dots of its name; the layers that are loaded go to the devices in
 *                 runs of equal number, and what belongs to none to the first
 * @param opts     as for h2d_load(); `tensor_done` is called once per device that gets the
 *                 tensor; no `stream`, no `per_tensor`. Paths view, register and gds serve one
 *                 device at a time: H2D_E_UNSUPPORTED
 * @param weights  (out) `device_count` sets, one per device, each freed by h2d_weights_free();
 *                 all NULL on failure. Their reports speak of the load as a whole, except
 *                 loaded_bytes and tensor_count
 * @return 0 or as h2d_load(). @since 0.1
 */
H2D_API int h2d_load_split(struct h2d_checkpoint *ckpt, struct h2d_device *const *devs,
			   uint32_t device_count, h2d_split_fn split, void *user,
			   const struct h2d_load_opts *opts, struct h2d_weights **weights);

/** Release weights and their memory on the device; NULL is allowed. @since 0.1 */
H2D_API void h2d_weights_free(struct h2d_weights *weights);
/** Number of loaded tensors. @since 0.1 */
H2D_API uint64_t h2d_weights_count(const struct h2d_weights *weights);
/** Device address and size of loaded tensor `i` (0 … count-1) and its index in the checkpoint;
 *  out parameters may be NULL. Host-readable only on host devices. @since 0.1 */
H2D_API int h2d_weights_data(const struct h2d_weights *weights, uint64_t i, uint64_t *index,
			     void **data, uint64_t *size_bytes);
/** Copy bytes [offset, offset+bytes) of loaded tensor `i` back to host memory `dst`.
 *  H2D_E_UNSUPPORTED on `null`. @since 0.1 */
H2D_API int h2d_weights_read(const struct h2d_weights *weights, uint64_t i, uint64_t offset,
			     void *dst, uint64_t bytes);
/** What the load did; the strings live as long as the weights. @since 0.1 */
H2D_API int h2d_weights_report(const struct h2d_weights *weights, struct h2d_report *report);
/** Measurements of loaded tensor `i`; H2D_E_UNSUPPORTED unless the load was `per_tensor`.
 *  @since 0.1 */
H2D_API int h2d_weights_tensor_report(const struct h2d_weights *weights, uint64_t i,
				      struct h2d_tensor_report *report);

/** Outcome of h2d_verify(). @since 0.1 */
struct h2d_verify_result {
	size_t size;
	const char *algorithm; /**< "memcmp+xxh3-128" */
	uint64_t tensor_count; /**< tensors compared */
	uint64_t compared_bytes;
	uint64_t mismatch_tensor; /**< index of the first differing tensor, UINT64_MAX: none */
	uint64_t mismatch_offset; /**< its first differing byte */
	uint64_t hash_low, hash_high; /**< of all bytes in file order */
};

/**
 * Read the weights back and compare them with an independent read of the file.
 * @return 0 when equal, H2D_E_MISMATCH, H2D_E_UNSUPPORTED on `null`, or an error of the read.
 * @since 0.1
 */
H2D_API int h2d_verify(const struct h2d_weights *weights, const struct h2d_load_opts *opts,
		       struct h2d_verify_result *result);

/* ---------------------------------------------------------------- what is here */

/** Name and one-line summary of transfer path `i`, or H2D_E_NOT_FOUND past the end. @since 0.1
 */
H2D_API int h2d_path_describe(uint32_t i, const char **name, const char **summary);
/** Name and one-line summary of device back-end `i`, or H2D_E_NOT_FOUND past the end.
 *  @since 0.1 */
H2D_API int h2d_backend_describe(uint32_t i, const char **name, const char **summary);

#ifdef __cplusplus
}
#endif
#endif
