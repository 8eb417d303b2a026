/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the result disk of a guest apart. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Kept of what one step may write; init drops more than it was told to keep anyway. */
#define TEXT_MAX_BYTES (64u << 20)

/* Appends bytes and keeps a NUL behind them; zeros inside become '?'. */
static int append(char **text, size_t *length, const void *data, size_t size)
{
	char *grown;

	if (size > TEXT_MAX_BYTES - *length)
		size = TEXT_MAX_BYTES - *length;
	grown = realloc(*text, *length + size + 1);
	if (!grown)
		return H2D_E_NOMEM;
	*text = grown;
	memcpy(grown + *length, data, size);
	for (size_t i = 0; i < size; i++)
		if (!grown[*length + i])
			grown[*length + i] = '?';
	*length += size;
	grown[*length] = 0;
	return 0;
}

static int append_line(char **text, const struct lab_record *record)
{
	size_t length = *text ? strlen(*text) : 0;
	int err = append(text, &length, record->payload, record->length);

	return err ? err : append(text, &length, "\n", 1);
}

static int take(struct lab_steps *steps, const struct lab_record *record)
{
	struct lab_step *step =
		record->step < steps->count ? &steps->steps[record->step] : NULL;
	size_t offset = 0;
	const char *text;

	switch (record->type) {
	case LAB_RES_BOOT:
		text = lab_record_string(record, &offset);
		if (text && !steps->boot_release && !(steps->boot_release = strdup(text)))
			return H2D_E_NOMEM;
		return 0;
	case LAB_RES_NOTE:
		return append_line(&steps->notes, record);
	case LAB_RES_DONE:
		steps->done = true;
		return 0;
	}
	if (!step) {
		steps->damaged = true;
		return 0;
	}
	switch (record->type) {
	case LAB_RES_BEGIN:
		step->begun = true;
		return 0;
	case LAB_RES_OUT:
		return append(&step->out, &step->out_bytes, record->payload, record->length);
	case LAB_RES_ERR:
		return append(&step->err, &step->err_bytes, record->payload, record->length);
	case LAB_RES_KMSG:
		return append_line(&step->kmsg, record);
	case LAB_RES_END:
		if (lab_step_end_decode(record, &step->end) == 0)
			step->ended = true;
		else
			steps->damaged = true;
		return 0;
	}
	steps->damaged = true;
	return 0;
}

int lab_steps_parse(const struct h2d_log *log, const void *data, size_t size,
		    const struct lab_job *job, struct lab_steps *steps)
{
	struct lab_cursor cursor;
	struct lab_record record;
	int more, err = 0;

	memset(steps, 0, sizeof(*steps));
	steps->count = job->step_count;
	steps->steps = calloc(job->step_count ? job->step_count : 1, sizeof(*steps->steps));
	if (!steps->steps)
		return h2d_fail(log, H2D_E_NOMEM, "out of memory");
	if (lab_cursor_open(&cursor, data, size, job->key) != 0)
		return 0;
	while (!err && (more = lab_cursor_next(&cursor, &record)) > 0)
		err = take(steps, &record);
	if (err)
		return h2d_fail(log, err, "out of memory");
	if (more < 0)
		steps->damaged = true;
	return 0;
}

int lab_steps_read(const struct h2d_log *log, const char *path, const struct lab_job *job,
		   struct lab_steps *steps)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *data;
	int err;

	memset(steps, 0, sizeof(*steps));
	if (fd < 0 || fstat(fd, &st) != 0) {
		err = h2d_fail_errno(log, errno, "%s", path);
		if (fd >= 0)
			close(fd);
		return err;
	}
	/* A file of our own private directory: nobody cuts it short under the mapping. */
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (data == MAP_FAILED)
		return h2d_fail_errno(log, errno, "%s", path);
	err = lab_steps_parse(log, data, (size_t)st.st_size, job, steps);
	munmap(data, (size_t)st.st_size);
	return err;
}

void lab_steps_free(struct lab_steps *steps)
{
	for (uint32_t i = 0; steps->steps && i < steps->count; i++) {
		free(steps->steps[i].out);
		free(steps->steps[i].err);
		free(steps->steps[i].kmsg);
	}
	free(steps->steps);
	free(steps->boot_release);
	free(steps->notes);
	memset(steps, 0, sizeof(*steps));
}
