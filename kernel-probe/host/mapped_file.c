/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a mapped file is. Its path need not lead to it any more, and lies in the process's own
 * mount namespace, so it is looked for in four places and believed only when device and inode
 * are those of the mapping. Nothing but a regular file is ever opened: to open a GPU's device
 * node would wake the device.
 *
 * In a capture the answers lie in /h2d/file/MAJOR:MINOR:INODE, as lines "key: value".
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "core/hostfs.h"
#include "core/mem.h"
#include "file/cache.h"
#include "host/process.h"

enum { HEAD_BYTES = 512, FACTS_BYTES = 64 << 10 };

static const char *const format_names[] = {
	[H2D_FORMAT_NONE] = "none",   [H2D_FORMAT_SAFETENSORS] = "safetensors",
	[H2D_FORMAT_GGUF] = "gguf",   [H2D_FORMAT_CACT] = "cact",
	[H2D_FORMAT_TORCH] = "torch", [H2D_FORMAT_TORCH_LEGACY] = "torch-legacy",
	[H2D_FORMAT_INDEX] = "index",
};
enum { FORMAT_COUNT = sizeof(format_names) / sizeof(format_names[0]) };

/* ---- finding it ---- */

void h2d_mapped_file_close(struct h2d_mapped_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}

/* A regular file by any path, read-only; -1 and errno. With `want`, only that file. */
static int open_regular(const char *path, const struct h2d_mapped_file *want, bool same_device)
{
	int fd = open(path, O_PATH | O_CLOEXEC), out;
	char self[64];
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) ||
	    (want &&
	     (st.st_ino != want->inode ||
	      (same_device && st.st_dev != makedev(want->device_major, want->device_minor))))) {
		close(fd);
		errno = ESTALE;
		return -1;
	}
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	out = open(self, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	close(fd);
	return out;
}

/* Among the descriptors that the process holds. */
static int open_by_descriptor(int pid, const struct h2d_mapped_file *f)
{
	char dir[64], path[128], **names;
	int n, fd = -1;

	snprintf(dir, sizeof(dir), "/proc/%d/fd", pid);
	n = h2d_hostfs_list(NULL, dir, &names);
	for (int i = 0; i < n && fd < 0; i++) {
		snprintf(path, sizeof(path), "%s/%.20s", dir, names[i]);
		fd = open_regular(path, f, true);
	}
	if (n >= 0)
		h2d_hostfs_list_free(names);
	return fd;
}

static int open_mapped(int pid, const struct h2d_file_mapping *m, struct h2d_mapped_file *f)
{
	char path[H2D_HOSTFS_PATH_BYTES];
	int fd, err;

	/* The kernel's own link to the mapped file; open to privileged callers only. */
	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, m->begin,
		 m->end);
	fd = open_regular(path, NULL, false);
	if (fd >= 0)
		return fd;
	if (!f->deleted &&
	    snprintf(path, sizeof(path), "/proc/%d/root%s", pid, f->path) < (int)sizeof(path)) {
		fd = open_regular(path, f, true);
		/* btrfs and overlayfs show another device in maps than stat(2) does. */
		if (fd < 0 && errno == ESTALE)
			fd = open_regular(path, f, false);
		if (fd >= 0)
			return fd;
	}
	err = errno;
	fd = open_by_descriptor(pid, f);
	if (fd < 0)
		snprintf(f->why, sizeof(f->why), "the file cannot be opened: %s",
			 f->deleted	 ? "it is deleted and no descriptor is left"
			 : err == ESTALE ? "its path now leads to another file"
					 : strerrordesc_np(err));
	return fd;
}

/* ---- telling what it is ---- */

/* torch.save writes "NAME/data.pkl" first; any other zip archive is no checkpoint. */
static bool zip_of_torch(const unsigned char *head, size_t bytes)
{
	static const char *const first[] = {"/data.pkl",  "/constants.pkl",   "/version",
					    "/byteorder", "/.format_version", NULL};
	size_t n = bytes >= 30 ? (size_t)head[26] | (size_t)head[27] << 8 : 0;

	if (n > bytes - (bytes < 30 ? bytes : 30))
		return false;
	for (size_t i = 0; first[i]; i++) {
		size_t want = strlen(first[i]);

		if (n > want && !memcmp(head + 30 + n - want, first[i], want))
			return true;
	}
	return false;
}

static void set_format(struct h2d_mapped_file *f, const unsigned char *head, size_t bytes)
{
	f->content_known = true;
	f->format = h2d_detect(head, bytes < H2D_DETECT_BYTES ? bytes : H2D_DETECT_BYTES,
			       f->size_known ? f->size_bytes : UINT64_MAX);
	if (f->format == H2D_FORMAT_TORCH && !zip_of_torch(head, bytes))
		f->format = H2D_FORMAT_NONE;
	f->checkpoint = f->format != H2D_FORMAT_NONE && f->format != H2D_FORMAT_INDEX;
}

/* From the process's own memory, where its file is out of reach. Reading there can make an
 * absent page present, so only a page that already is. */
static void read_memory(int pid, const struct h2d_file_mapping *m, struct h2d_mapped_file *f)
{
	unsigned char head[HEAD_BYTES];
	struct iovec to = {head, sizeof(head)},
		     from = {(void *)(uintptr_t)m->begin, sizeof(head)};
	ssize_t n;

	if (m->offset_bytes || m->permissions[0] != 'r' ||
	    m->present_bytes != m->end - m->begin)
		return;
	n = process_vm_readv(pid, &to, 1, &from, 1, 0);
	if (n > 0)
		set_format(f, head, (size_t)n);
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && !strcmp(text + n - m, end);
}

static bool is_named_like_one(const struct h2d_mapped_file *f)
{
	static const char *const names[] = {".safetensors", ".gguf", ".pt",  ".pth",
					    ".ckpt",	    ".cact", ".bin", NULL};

	for (size_t i = 0; names[i]; i++)
		if (ends_with(f->path, names[i]))
			return true;
	return false;
}

static void read_live(int pid, const struct h2d_file_mapping *m, struct h2d_mapped_file *f)
{
	unsigned char head[HEAD_BYTES];
	struct stat st;
	ssize_t n;

	f->fd = open_mapped(pid, m, f);
	if (f->fd < 0) {
		read_memory(pid, m, f);
		return;
	}
	if (!fstat(f->fd, &st) && st.st_size >= 0) {
		f->size_known = true;
		f->size_bytes = (uint64_t)st.st_size;
	}
	n = pread(f->fd, head, sizeof(head), 0);
	if (n < 0)
		snprintf(f->why, sizeof(f->why), "the file cannot be read: %s",
			 strerrordesc_np(errno));
	else
		set_format(f, head, (size_t)n);
}

/* ---- where a server may not answer ---- */

enum { SERVER_WAIT_S = 2 };

/* A look at a file that may never end; whoever comes last frees it. */
struct patient {
	pthread_mutex_t lock;
	pthread_cond_t done;
	bool finished, given_up;
	int pid;
	struct h2d_file_mapping mapping;
	struct h2d_mapped_file file;
};

static void free_patient(struct patient *w)
{
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->done);
	free(w->file.path);
	free(w);
}

static void *look(void *arg)
{
	struct patient *w = arg;
	bool mine;

	read_live(w->pid, &w->mapping, &w->file);
	pthread_mutex_lock(&w->lock);
	w->finished = true;
	mine = w->given_up;
	pthread_cond_signal(&w->done);
	pthread_mutex_unlock(&w->lock);
	if (mine) {
		h2d_mapped_file_close(&w->file);
		free_patient(w);
	}
	return NULL;
}

static struct patient *start_look(int pid, const struct h2d_file_mapping *m,
				  const struct h2d_mapped_file *f)
{
	struct patient *w = h2d_mem->calloc(1, sizeof(*w));
	pthread_t thread;

	if (!w)
		return NULL;
	w->pid = pid;
	w->mapping = *m;
	w->file = *f;
	w->file.path = strdup(f->path);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->done, NULL);
	if (!w->file.path || h2d_mem->thread_create(&thread, look, w)) {
		free_patient(w);
		return NULL;
	}
	pthread_detach(thread);
	return w;
}

/* A server that is gone keeps open() and read() waiting for ever. */
static void read_patiently(int pid, const struct h2d_file_mapping *m, struct h2d_mapped_file *f)
{
	struct patient *w = start_look(pid, m, f);
	char *path = f->path;
	struct timespec end;
	bool mine;

	if (!w) {
		snprintf(f->why, sizeof(f->why), "out of memory");
		return;
	}
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += SERVER_WAIT_S;
	pthread_mutex_lock(&w->lock);
	while (!w->finished && pthread_cond_timedwait(&w->done, &w->lock, &end) != ETIMEDOUT)
		;
	mine = w->finished;
	w->given_up = !mine;
	if (mine) {
		*f = w->file;
		f->path = path;
	} else {
		snprintf(f->why, sizeof(f->why), "the file's server did not answer within %d s",
			 SERVER_WAIT_S);
	}
	pthread_mutex_unlock(&w->lock);
	if (mine)
		free_patient(w);
}

/* ---- the same in a capture ---- */

static void facts_name(char *out, size_t cap, const struct h2d_mapped_file *f)
{
	snprintf(out, cap, "/h2d/file/%u:%u:%" PRIu64, f->device_major, f->device_minor,
		 f->inode);
}

static void read_recorded(const char *root, struct h2d_mapped_file *f)
{
	char name[96], *text, value[256];
	size_t bytes;
	int err;

	facts_name(name, sizeof(name), f);
	err = h2d_hostfs_read_all(root, name, FACTS_BYTES, &text, &bytes);
	if (err) {
		snprintf(f->why, sizeof(f->why), "the capture does not tell");
		return;
	}
	if (h2d_text_field(text, "size_bytes", value, sizeof(value)) > 0) {
		f->size_known = true;
		f->size_bytes = strtoull(value, NULL, 10);
	}
	if (h2d_text_field(text, "format", value, sizeof(value)) > 0)
		for (int i = 0; i < FORMAT_COUNT; i++)
			if (!strcmp(value, format_names[i])) {
				f->content_known = true;
				f->format = (enum h2d_format_id)i;
			}
	f->checkpoint = f->format != H2D_FORMAT_NONE && f->format != H2D_FORMAT_INDEX;
	if (h2d_text_field(text, "why", value, sizeof(value)) > 0)
		snprintf(f->why, sizeof(f->why), "%.190s", value);
	if (h2d_text_field(text, "filesystem", value, sizeof(value)) > 0)
		snprintf(f->mount.type, sizeof(f->mount.type), "%.63s", value);
	h2d_mount_kind(&f->mount);
	if (h2d_text_field(text, "read_ahead_bytes", value, sizeof(value)) > 0) {
		f->mount.have_read_ahead = true;
		f->mount.read_ahead_bytes = strtoull(value, NULL, 10);
	}
	free(text);
}

void h2d_mapped_file_note(const struct h2d_process *p, uint32_t file)
{
	const struct h2d_mapped_file *f = &p->files[file];
	char name[96], *text = NULL;
	size_t bytes = 0;
	FILE *out;

	if (!h2d_hostfs_observed() || !(f->checkpoint || is_named_like_one(f)))
		return;
	out = open_memstream(&text, &bytes);
	if (!out)
		return;
	if (f->size_known)
		fprintf(out, "size_bytes: %" PRIu64 "\n", f->size_bytes);
	if (f->content_known)
		fprintf(out, "format: %s\n", format_names[f->format]);
	if (f->why[0])
		fprintf(out, "why: %s\n", f->why);
	if (f->mount.type[0])
		fprintf(out, "filesystem: %s\n", f->mount.type);
	if (f->mount.have_read_ahead)
		fprintf(out, "read_ahead_bytes: %" PRIu64 "\n", f->mount.read_ahead_bytes);
	for (size_t i = 0; i < p->mapping_count; i++) {
		const struct h2d_file_mapping *m = &p->mappings[i];

		if (m->file == file && m->cached_known)
			fprintf(out, "cached_%" PRIu64 "_%" PRIu64 ": %" PRIu64 "\n",
				m->offset_bytes, m->end - m->begin, m->cached_bytes);
	}
	facts_name(name, sizeof(name), f);
	if (!fclose(out))
		h2d_hostfs_note(H2D_HOSTFS_TEXT, name, text, bytes, 0);
	free(text);
}

/* ---- both ---- */

void h2d_mapped_file_read(const char *root, int pid, const struct h2d_file_mapping *probe,
			  struct h2d_mapped_file *f)
{
	f->fd = -1;
	if (root) {
		read_recorded(root, f);
	} else {
		/* Of libraries nobody asks where they lie. */
		if (!strstr(f->path, ".so"))
			h2d_mount_find(NULL, pid, f->path, &f->mount);
		if (f->mount.network)
			read_patiently(pid, probe, f);
		else
			read_live(pid, probe, f);
	}
	f->named_like_one = !f->content_known && is_named_like_one(f);
}

void h2d_mapped_file_cache(const char *root, const struct h2d_mapped_file *f,
			   struct h2d_file_mapping *m)
{
	char name[96], key[64], *text, value[32];
	struct h2d_cache_state state;
	struct h2d_file file = {.fd = f->fd, .id.size_bytes = f->size_bytes};
	size_t bytes;

	if (f->fd >= 0) {
		h2d_cache_query(&file, m->offset_bytes, m->end - m->begin, &state);
		m->cached_known = state.method != H2D_CACHE_UNKNOWN;
		m->cached_bytes = m->cached_known ? state.cached_bytes : 0;
		return;
	}
	facts_name(name, sizeof(name), f);
	if (!root || h2d_hostfs_read_all(root, name, FACTS_BYTES, &text, &bytes))
		return;
	snprintf(key, sizeof(key), "cached_%" PRIu64 "_%" PRIu64, m->offset_bytes,
		 m->end - m->begin);
	if (h2d_text_field(text, key, value, sizeof(value)) > 0) {
		m->cached_known = true;
		m->cached_bytes = strtoull(value, NULL, 10);
	}
	free(text);
}
