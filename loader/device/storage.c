/* SPDX-License-Identifier: Apache-2.0 */
#include "device/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "device/storage_api.h"

/* Of one read: they return less beyond 2 GiB, as read(2) does. */
#define READ_MAX_BYTES (UINT64_C(1) << 30)

struct h2d_storage_file {
	struct h2d_storage_file *next;
	dev_t dev;
	ino_t ino;
	int fd; /* our own */
	void *handle;
	unsigned refs;
};

struct h2d_storage_ref {
	struct h2d_storage_ref *next;
	struct h2d_storage_file *file;
};

struct h2d_storage {
	const struct h2d_storage_kind *kind;
	struct h2d_storage_api api;
	struct h2d_dl dl;
	struct h2d_log log;
	bool opened; /* by us: another user may have done it before */
	pthread_mutex_t lock;
	struct h2d_storage_file *files; /* under `lock` */
};

/* Neither library exports names for its codes. */
static const char *meaning(int code)
{
	switch (code) {
	case 5001:
		return "its kernel driver is not loaded";
	case 5004:
		return "its kernel driver has another version";
	case 5007:
		return "not supported on this platform";
	case 5008:
		return "not supported for this file";
	case 5009:
		return "not supported by this GPU";
	case 5011:
		return "the GPU's driver reported an error";
	case 5018:
		return "not a regular file";
	case 5020:
		return "the file is not open for direct reads";
	case 5025:
		return "permission denied";
	case 5033:
		return "its kernel driver could not be set up";
	case 5034:
		return "disabled for this file by configuration";
	default:
		return "see its header for the code";
	}
}

/* ---------------------------------------------------------------- open and close */

static bool is_false(const char *variable)
{
	const char *v = variable ? getenv(variable) : NULL;

	return v && (!strcasecmp(v, "false") || !strcmp(v, "0"));
}

/* Before the driver is opened. @return whether it is certain that nothing falls back */
static bool forbid_compat(struct h2d_storage *s)
{
	if (s->api.set_parameter &&
	    !s->api.set_parameter(H2D_STORAGE_PARAMETER_ALLOW_COMPAT, false).code)
		return true;
	return is_false(s->kind->compat_variable);
}

/* After it. */
static bool allows_compat(struct h2d_storage *s, bool forbidden)
{
	struct h2d_storage_properties p;

	if (!s->kind->has_properties)
		return !forbidden;
	memset(&p, 0, sizeof(p));
	if (s->api.properties(&p).code)
		return !forbidden;
	return p.control_flags & 1u << H2D_STORAGE_CONTROL_ALLOW_COMPAT;
}

static int open_driver(struct h2d_storage *s, bool allow_compat, char *why, size_t why_bytes)
{
	bool forbidden = !allow_compat && forbid_compat(s);
	struct h2d_storage_error e = s->api.driver_open();

	s->opened = !e.code;
	if (e.code && e.code != H2D_STORAGE_ALREADY_OPEN) {
		snprintf(why, why_bytes, "%s: its driver cannot be opened: %s (%d, %d)",
			 s->dl.soname, meaning(e.code), e.code, e.driver_code);
		return H2D_E_UNSUPPORTED;
	}
	if (allow_compat || !allows_compat(s, forbidden))
		return 0;
	snprintf(why, why_bytes,
		 "%s may copy through host memory in silence (compatibility mode), and %s; "
		 "gds=compat in the device's name allows it",
		 s->dl.soname,
		 s->kind->compat_variable ? "only HIPFILE_ALLOW_COMPAT_MODE=false forbids it"
					  : "its configuration does not let that be forbidden");
	return H2D_E_UNSUPPORTED;
}

int h2d_storage_open(struct h2d_storage **out, const struct h2d_storage_kind *kind,
		     bool allow_compat, const struct h2d_log *log, char *why, size_t why_bytes)
{
	struct h2d_storage *s = h2d_mem->calloc(1, sizeof(*s));
	int rc;

	*out = NULL;
	if (!s) {
		snprintf(why, why_bytes, "out of memory");
		return H2D_E_NOMEM;
	}
	s->kind = kind;
	s->log = *log;
	pthread_mutex_init(&s->lock, NULL);
	rc = h2d_dl_open(&s->dl, &kind->library, &s->api, why, why_bytes);
	if (rc) {
		rc = H2D_E_UNSUPPORTED;
	} else {
		rc = open_driver(s, allow_compat, why, why_bytes);
		if (!rc || s->opened)
			h2d_dl_keep(&s->dl); /* it may have threads by now */
	}
	if (rc)
		h2d_storage_close(s);
	else
		*out = s;
	return rc;
}

void h2d_storage_close(struct h2d_storage *s)
{
	struct h2d_storage_error e = {0, 0};

	if (!s)
		return;
	if (s->opened)
		e = s->api.driver_close();
	if (e.code)
		h2d_log_line(&s->log, H2D_LOG_WARNING, "%s: %s (%d)", s->kind->close_name,
			     meaning(e.code), e.code);
	h2d_dl_close(&s->dl);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* ---------------------------------------------------------------- device memory */

bool h2d_storage_know(struct h2d_storage *s, void *base, uint64_t bytes)
{
	struct h2d_storage_error e = s->api.buffer_register(base, bytes, 0);

	if (e.code)
		h2d_log_line(&s->log, H2D_LOG_INFO,
			     "%s: %" PRIu64 " bytes of device memory are not registered: %s "
			     "(%d)",
			     s->kind->name, bytes, meaning(e.code), e.code);
	return !e.code;
}

void h2d_storage_forget(struct h2d_storage *s, void *base)
{
	s->api.buffer_deregister(base);
}

/* ---------------------------------------------------------------- files */

/* The same file, for direct reads where the filesystem has them. */
static int reopen(int fd)
{
	char path[32];
	int own;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	return own >= 0 ? own : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

/* Under the lock. */
static int add_file(struct h2d_storage *s, int fd, const struct stat *st,
		    struct h2d_storage_file **out)
{
	struct h2d_storage_descr descr = {.type = H2D_STORAGE_HANDLE_FD};
	struct h2d_storage_file *f = h2d_mem->calloc(1, sizeof(*f));
	struct h2d_storage_error e;
	int rc;

	if (!f)
		return h2d_fail(&s->log, H2D_E_NOMEM, "%s: out of memory", s->kind->name);
	f->dev = st->st_dev;
	f->ino = st->st_ino;
	f->fd = reopen(fd);
	if (f->fd < 0) {
		rc = h2d_fail_errno(&s->log, errno, "%s: a descriptor of its own",
				    s->kind->name);
		free(f);
		return rc;
	}
	descr.handle.fd = f->fd;
	e = s->api.handle_register(&f->handle, &descr);
	if (e.code) {
		rc = h2d_fail(&s->log, H2D_E_UNSUPPORTED, "%s: %s (%d, %d)",
			      s->kind->register_name, meaning(e.code), e.code, e.driver_code);
		close(f->fd);
		free(f);
		return rc;
	}
	f->next = s->files;
	s->files = f;
	*out = f;
	return 0;
}

/* Under the lock. */
static void unref_file(struct h2d_storage *s, struct h2d_storage_file *f)
{
	struct h2d_storage_file **at;

	if (--f->refs)
		return;
	for (at = &s->files; *at != f; at = &(*at)->next)
		;
	*at = f->next;
	s->api.handle_deregister(f->handle);
	close(f->fd);
	free(f);
}

static int get_file(struct h2d_storage *s, struct h2d_storage_refs *refs, int fd,
		    struct h2d_storage_file **out)
{
	struct h2d_storage_ref *ref;
	struct stat st;
	int rc = 0;

	if (fstat(fd, &st))
		return h2d_fail_errno(&s->log, errno, "%s: a descriptor", s->kind->name);
	for (ref = refs->first; ref; ref = ref->next)
		if (ref->file->dev == st.st_dev && ref->file->ino == st.st_ino) {
			*out = ref->file;
			return 0;
		}
	ref = h2d_mem->calloc(1, sizeof(*ref));
	if (!ref)
		return h2d_fail(&s->log, H2D_E_NOMEM, "%s: out of memory", s->kind->name);
	pthread_mutex_lock(&s->lock);
	for (*out = s->files; *out; *out = (*out)->next)
		if ((*out)->dev == st.st_dev && (*out)->ino == st.st_ino)
			break;
	if (!*out)
		rc = add_file(s, fd, &st, out);
	if (!rc)
		(*out)->refs++;
	pthread_mutex_unlock(&s->lock);
	if (rc) {
		free(ref);
		return rc;
	}
	ref->file = *out;
	ref->next = refs->first;
	refs->first = ref;
	return 0;
}

void h2d_storage_drop(struct h2d_storage *s, struct h2d_storage_refs *refs, bool abandon)
{
	while (refs->first) {
		struct h2d_storage_ref *next = refs->first->next;

		pthread_mutex_lock(&s->lock);
		if (!abandon)
			unref_file(s, refs->first->file);
		pthread_mutex_unlock(&s->lock);
		free(refs->first);
		refs->first = next;
	}
}

static int read_failed(struct h2d_storage *s, ssize_t got, int err, uint64_t offset)
{
	int code = got < -1 ? (int)-got : 0, status = H2D_E_DEVICE;

	if (!got)
		return h2d_fail(&s->log, H2D_E_IO, "%s: the file ends at offset %" PRIu64,
				s->kind->read_name, offset);
	if (!code)
		return h2d_fail_errno(&s->log, err, "%s at offset %" PRIu64, s->kind->read_name,
				      offset);
	if (code == H2D_STORAGE_NOT_SUPPORTED || code == H2D_STORAGE_DISABLED)
		status = H2D_E_UNSUPPORTED;
	return h2d_fail(&s->log, status, "%s at offset %" PRIu64 ": %s (%d)",
			s->kind->read_name, offset, meaning(code), code);
}

int h2d_storage_read(struct h2d_storage *s, struct h2d_storage_refs *refs, int fd,
		     uint64_t offset, uint64_t bytes, void *base, uint64_t at)
{
	struct h2d_storage_file *f = NULL;
	int rc = get_file(s, refs, fd, &f);

	while (!rc && bytes) {
		uint64_t n = bytes < READ_MAX_BYTES ? bytes : READ_MAX_BYTES;
		ssize_t got;

		errno = 0;
		got = s->api.read(f->handle, base, n, (off_t)offset, (off_t)at);
		if (got == -1 && errno == EINTR)
			continue;
		if (got <= 0 || (uint64_t)got > n)
			return read_failed(s, got > 0 ? -H2D_STORAGE_BASE_ERROR : got, errno,
					   offset);
		offset += (uint64_t)got;
		at += (uint64_t)got;
		bytes -= (uint64_t)got;
	}
	return rc;
}
