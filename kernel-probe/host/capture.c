/* SPDX-License-Identifier: Apache-2.0 */
#include "host/capture.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/envelope.h"
#include "h2d/h2d.h"
#include "host/doctor.h"
#include "host/redact.h"
#include "host/unpack.h"

/* Run what the documents and the doctor run, for what they read. */
static void read_machine(const struct h2d_log *log)
{
	const struct h2d_environment env = {0};
	const struct h2d_doctor_measured none = {0};
	struct h2d_doctor_kernel *kernel = calloc(1, sizeof(*kernel));
	struct h2d_machine *machine = calloc(1, sizeof(*machine));
	struct h2d_memory memory;
	struct h2d_json j;

	h2d_json_init_memory(&j, false);
	h2d_json_object_begin(&j, NULL);
	h2d_environment_write(&j, "environment", &env);
	h2d_json_object_end(&j);
	h2d_json_finish(&j);
	free(h2d_json_take(&j));
	if (machine)
		h2d_machine_read(NULL, machine);
	h2d_memory_read(NULL, 0, &memory);
	if (kernel)
		h2d_doctor_kernel_read(NULL, &none, log, kernel);
	free(machine);
	free(kernel);
}

static int read_process(const struct h2d_capture_opts *o, int pid, struct h2d_record *r)
{
	struct h2d_process p;
	struct h2d_memory memory;
	struct h2d_sample sample;
	const struct h2d_log silent = {0};
	int rc = h2d_process_read(NULL, pid, o->found ? &silent : &o->log, &p);

	h2d_process_free(&p);
	if (rc)
		return rc;
	h2d_memory_read(NULL, pid, &memory);
	for (unsigned k = 0; k < o->samples; k++) {
		struct timespec pause = {o->interval_ms / 1000,
					 (long)(o->interval_ms % 1000) * 1000000};

		if (o->stop && o->stop(o->stop_user))
			return H2D_E_CANCELLED;
		if (k)
			nanosleep(&pause, NULL);
		snprintf(r->prefix, sizeof(r->prefix), "/h2d/sample/%u", k);
		h2d_sample_take(NULL, pid, &sample);
	}
	r->prefix[0] = 0;
	return 0;
}

/* Facts of mapped files are kept in a form of their own; how they were found is not, since that
 * would tell all mounts and descriptors of the process. */
static void drop_private(struct h2d_record *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->count; i++) {
		struct h2d_recorded *item = &r->items[i];
		const char *last = strrchr(item->path, '/');

		if (!strcmp(last, "/mountinfo") ||
		    (!strcmp(last, "/fd") && !strncmp(item->path, "/proc/", 6))) {
			free(item->path);
			free(item->data);
			continue;
		}
		r->items[kept++] = *item;
	}
	r->count = kept;
}

static void add_about(const struct h2d_capture_opts *o)
{
	char text[256], date[32] = "";
	time_t now = time(NULL);
	struct tm tm;

	if (gmtime_r(&now, &tm))
		strftime(date, sizeof(date), "%Y-%m-%d", &tm);
	snprintf(text, sizeof(text), "Recorded by h2d %d.%d.%d on %s%s.\n", H2D_VERSION_MAJOR,
		 H2D_VERSION_MINOR, H2D_VERSION_PATCH, date,
		 o->redact ? ", private details removed" : "");
	h2d_hostfs_note(H2D_HOSTFS_TEXT, "/h2d/about", text, strlen(text), 0);
}

static void count(const struct h2d_record *r, struct h2d_capture_result *out)
{
	for (size_t i = 0; i < r->count; i++) {
		const struct h2d_recorded *item = &r->items[i];

		if (item->err)
			out->unreadable_count += item->err != -ENOENT;
		else if (item->kind == H2D_HOSTFS_LINK)
			out->link_count++;
		else if (item->kind == H2D_HOSTFS_TEXT)
			out->file_count++;
		if (!item->err && item->kind == H2D_HOSTFS_TEXT)
			out->text_bytes += item->bytes;
	}
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	remove(path);
	return 0;
}

static int write_archive(const struct h2d_record *r, const char *output,
			 const struct h2d_log *log)
{
	const char *base = getenv("TMPDIR");
	char *tmp;
	int rc;

	if (asprintf(&tmp, "%s/h2d-capture-XXXXXX", base && base[0] == '/' ? base : "/tmp") < 0)
		return h2d_fail(log, H2D_E_NOMEM, "out of memory");
	if (!mkdtemp(tmp)) {
		rc = h2d_fail_errno(log, errno, "temporary directory %s", tmp);
		free(tmp);
		return rc;
	}
	rc = h2d_record_write(r, tmp, log);
	if (!rc)
		rc = h2d_pack(tmp, "h2d-capture", output, log);
	nftw(tmp, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	free(tmp);
	return rc;
}

static int write_tree(const struct h2d_record *r, const char *output, const struct h2d_log *log)
{
	if (mkdir(output, 0755))
		return errno == EEXIST
			       ? h2d_fail(log, H2D_E_INVALID,
					  "%s: exists already and is not overwritten", output)
			       : h2d_fail_errno(log, errno, "%s", output);
	return h2d_record_write(r, output, log);
}

int h2d_capture(const struct h2d_capture_opts *o, const char *output,
		struct h2d_capture_result *out)
{
	struct h2d_record r = {0};
	struct stat st;
	int rc = 0;

	memset(out, 0, sizeof(*out));
	if (!lstat(output, &st))
		return h2d_fail(&o->log, H2D_E_INVALID,
				"%s: exists already and is not overwritten", output);
	h2d_record_start(&r);
	add_about(o);
	read_machine(&o->log);
	for (size_t i = 0; i < o->pid_count && !rc; i++) {
		rc = read_process(o, o->pids[i], &r);
		out->process_count += !rc;
		if (rc == H2D_E_NOT_FOUND && o->found)
			rc = 0;
		else if (rc && o->found)
			h2d_fail(&o->log, rc, "process %d: %s", o->pids[i],
				 h2d_status_string(rc));
	}
	h2d_record_stop();
	if (!rc && r.failed)
		rc = h2d_fail(&o->log, H2D_E_NOMEM, "more than %d MiB to capture",
			      H2D_RECORD_BYTES_MAX >> 20);
	drop_private(&r);
	if (!rc && o->redact)
		rc = h2d_redact(&r, o->switches);
	if (!rc)
		rc = o->as_tree ? write_tree(&r, output, &o->log)
				: write_archive(&r, output, &o->log);
	if (!rc) {
		count(&r, out);
		out->size_bytes = out->text_bytes;
		if (!o->as_tree && !stat(output, &st))
			out->size_bytes = (uint64_t)st.st_size;
	}
	h2d_record_free(&r);
	return rc;
}
