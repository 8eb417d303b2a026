/* SPDX-License-Identifier: Apache-2.0 */
#include "path/calibration.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/clock.h"
#include "core/hostfs.h"
#include "core/json.h"
#include "h2d/h2d.h"

enum { FILE_MAX_BYTES = 16 << 10, NAME_BYTES = 64, PATH_BYTES = 4096 };

static const char schema[] = "h2d.calibration";

const char *const h2d_identity_keys[H2D_IDENTITY_COUNT] = {
	"architecture", "cpu", "device", "hardware", "pci_address", "kernel", "runtime", "h2d",
};

static void set(struct h2d_identity *id, int i, const char *text)
{
	char *to = id->values[i];

	snprintf(to, sizeof(id->values[i]), "%s", text);
	for (; *to; to++)
		if (*to < 0x20 || *to > 0x7e)
			*to = '?';
}

void h2d_identity_read(struct h2d_identity *id, struct h2d_device *dev)
{
	struct h2d_device_info info = H2D_OPTS(info);
	struct h2d_runtime runtime = {0};
	char cpuinfo[4096], model[136] = "", version[36];
	struct utsname name;

	memset(id, 0, sizeof(*id));
	if (!uname(&name)) {
		set(id, 0, name.machine);
		set(id, 5, name.release);
	}
	if (h2d_hostfs_read(NULL, "/proc/cpuinfo", cpuinfo, sizeof(cpuinfo)) > 0 &&
	    h2d_text_field(cpuinfo, "model name", model, sizeof(model)) >= 0)
		set(id, 1, model);
	h2d_device_info(dev, &info); /* fills the facts that take long */
	set(id, 2, dev->facts.name);
	set(id, 3, dev->facts.hardware);
	set(id, 4, dev->facts.pci_address);
	if (dev->backend->runtime)
		dev->backend->runtime(&runtime);
	set(id, 6, runtime.version);
	snprintf(version, sizeof(version), "%d.%d.%d", H2D_VERSION_MAJOR, H2D_VERSION_MINOR,
		 H2D_VERSION_PATCH);
	set(id, 7, version);
}

/* ---------------------------------------------------------------- the directory */

static int join(char *out, const char *a, const char *b)
{
	int n = snprintf(out, PATH_BYTES, "%s%s", a, b);

	return n < 0 || n >= PATH_BYTES ? -ENAMETOOLONG : 0;
}

/* Without the last component, and the component's parent made if `create`. @return 0 or a
 * negative errno */
static int cache_path(char *path, bool create)
{
	const char *base = secure_getenv("XDG_CACHE_HOME"), *tail = "";
	int rc;

	/* A relative one is to be ignored, by the specification of these directories. */
	if (!base || base[0] != '/') {
		base = secure_getenv("HOME");
		tail = "/.cache";
	}
	if (!base || base[0] != '/')
		return -ENOENT;
	rc = join(path, base, tail);
	if (!rc && create && mkdir(path, 0700) && errno != EEXIST)
		return -errno;
	if (!rc)
		rc = strlen(path) + 5 > PATH_BYTES ? -ENAMETOOLONG : 0;
	if (!rc)
		memcpy(path + strlen(path), "/h2d", 5);
	if (!rc && create && mkdir(path, 0700) && errno != EEXIST)
		return -errno;
	return rc;
}

/* Nobody else may have put something there. @return descriptor or a negative errno */
static int open_cache(char *path, bool create)
{
	struct stat st;
	int fd, rc = cache_path(path, create);

	if (rc)
		return rc;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH)))
		return fd;
	close(fd);
	return -EPERM;
}

static void file_name(const struct h2d_identity *id, char *out)
{
	char place[H2D_IDENTITY_PLACE_COUNT][sizeof(id->values[0])];

	memcpy(place, id->values, sizeof(place)); /* zeros behind each value */
	snprintf(out, NAME_BYTES, "calibration-%016llx.json",
		 (unsigned long long)XXH3_64bits(place, sizeof(place)));
}

/* ---------------------------------------------------------------- reading */

/* @return length, or a negative errno; -EINVAL with `why` */
static ssize_t read_file(int dir, const char *name, char *buf, const char **why)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	size_t used = 0;
	struct stat st;
	ssize_t n = 0;

	if (fd < 0) {
		*why = strerror(errno);
		return -errno;
	}
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
		*why = "not a regular file of this user";
	else if (st.st_size > FILE_MAX_BYTES)
		*why = "too long";
	while (!*why && used < FILE_MAX_BYTES) {
		n = read(fd, buf + used, FILE_MAX_BYTES - used);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			*why = strerror(errno);
		if (n <= 0)
			break;
		used += (size_t)n;
	}
	close(fd);
	return *why ? -EINVAL : (ssize_t)used;
}

/* @return NULL, or why it is not taken */
static const char *judge(const struct h2d_identity *id, const json_t *doc,
			 uint64_t *chunk_bytes, uint32_t *slots)
{
	const json_t *ids = json_object_get(doc, "identity");
	const char *is = json_string_value(json_object_get(doc, "schema"));
	const json_t *chunk = json_object_get(doc, "chunk_bytes");
	const json_t *count = json_object_get(doc, "slot_count");

	if (!is || strcmp(is, schema) ||
	    json_integer_value(json_object_get(doc, "schema_version")) != 1)
		return "not a calibration of this kind";
	for (int i = 0; i < H2D_IDENTITY_COUNT; i++) {
		const char *v = json_string_value(json_object_get(ids, h2d_identity_keys[i]));

		if (!v || strcmp(v, id->values[i]))
			return i < H2D_IDENTITY_PLACE_COUNT
				       ? "it speaks of another machine or device"
				       : "kernel, runtime or h2d have changed";
	}
	if (!json_is_integer(chunk) || !json_is_integer(count) ||
	    json_integer_value(chunk) < 0 || json_integer_value(count) < 0 ||
	    !h2d_calibrate_knows((uint64_t)json_integer_value(chunk),
				 (uint64_t)json_integer_value(count)))
		return "its sizes are none that a calibration chooses";
	*chunk_bytes = (uint64_t)json_integer_value(chunk);
	*slots = (uint32_t)json_integer_value(count);
	return NULL;
}

bool h2d_calibration_read(const struct h2d_identity *id, const struct h2d_log *log,
			  uint64_t *chunk_bytes, uint32_t *slots)
{
	char path[PATH_BYTES], name[NAME_BYTES], buf[FILE_MAX_BYTES];
	const char *why = NULL;
	json_t *doc = NULL;
	ssize_t n = 0;
	int dir = open_cache(path, false);

	if (dir == -ENOENT)
		return false;
	file_name(id, name);
	if (dir < 0)
		why = strerror(-dir);
	else
		n = read_file(dir, name, buf, &why);
	if (dir >= 0)
		close(dir);
	if (n == -ENOENT)
		return false;
	if (!why) {
		doc = json_loadb(buf, (size_t)n, JSON_REJECT_DUPLICATES, NULL);
		why = doc ? judge(id, doc, chunk_bytes, slots) : "not a JSON text";
	}
	json_decref(doc);
	if (!why)
		return true;
	h2d_log_line(log, H2D_LOG_INFO, "%s/%s: ignored: %s", path, name, why);
	return false;
}

/* ---------------------------------------------------------------- writing */

static char *document(const struct h2d_identity *id, const struct h2d_calibrate_result *r)
{
	struct h2d_json j;

	h2d_json_init_memory(&j, true);
	h2d_json_object_begin(&j, NULL);
	h2d_json_string(&j, "schema", schema);
	h2d_json_u64(&j, "schema_version", 1);
	h2d_json_object_begin(&j, "identity");
	for (int i = 0; i < H2D_IDENTITY_COUNT; i++)
		h2d_json_string(&j, h2d_identity_keys[i], id->values[i]);
	h2d_json_object_end(&j);
	h2d_json_u64(&j, "chunk_bytes", r->tries[r->chosen].chunk_bytes);
	h2d_json_u64(&j, "slot_count", r->tries[r->chosen].slots);
	h2d_json_u64(&j, "elapsed_ns", r->elapsed_ns);
	h2d_json_array_begin(&j, "tries");
	for (int i = 0; i < H2D_CALIBRATE_SIZES; i++) {
		h2d_json_object_begin(&j, NULL);
		h2d_json_u64(&j, "chunk_bytes", r->tries[i].chunk_bytes);
		h2d_json_u64(&j, "slot_count", r->tries[i].slots);
		h2d_json_u64(&j, "throughput_bytes_per_s", r->tries[i].bytes_per_s);
		h2d_json_object_end(&j);
	}
	h2d_json_array_end(&j);
	h2d_json_object_end(&j);
	h2d_json_finish(&j);
	return h2d_json_take(&j);
}

/* @return 0 or a negative errno */
static int write_all(int fd, const char *text)
{
	size_t left = strlen(text);

	while (left) {
		ssize_t n = write(fd, text, left);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		text += n;
		left -= (size_t)n;
	}
	return 0;
}

/* Under another name first, so that a reader finds all of it or nothing. */
static int replace_file(int dir, const char *name, const char *text)
{
	char part[NAME_BYTES + 48];
	int fd, rc;

	snprintf(part, sizeof(part), ".%s.%ld.%llu", name, (long)getpid(),
		 (unsigned long long)h2d_now_ns());
	fd = openat(dir, part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	rc = write_all(fd, text);
	if (close(fd) && !rc)
		rc = -errno;
	if (!rc && renameat(dir, part, dir, name))
		rc = -errno;
	if (rc)
		unlinkat(dir, part, 0);
	return rc;
}

void h2d_calibration_write(const struct h2d_identity *id, const struct h2d_log *log,
			   const struct h2d_calibrate_result *result)
{
	char path[PATH_BYTES] = "", name[NAME_BYTES], *text;
	int dir, rc;

	text = document(id, result);
	if (!text)
		return;
	file_name(id, name);
	dir = open_cache(path, true);
	rc = dir < 0 ? dir : replace_file(dir, name, text);
	if (dir >= 0)
		close(dir);
	free(text);
	if (rc)
		h2d_log_line(log, H2D_LOG_INFO, "%s: the calibration cannot be kept: %s",
			     path[0] ? path : "no cache directory", strerror(-rc));
	else
		h2d_log_line(log, H2D_LOG_INFO, "%s/%s: the calibration is kept here", path,
			     name);
}
