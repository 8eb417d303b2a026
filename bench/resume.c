/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/resume.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "bench/compare.h"
#include "core/mem.h"

enum { PIECE_BYTES = 64 << 10 };

/* @return 0 or a negative errno */
static int hash_file(const char *path, char out[17])
{
	XXH3_state_t *state = XXH3_createState();
	char *piece = h2d_mem->malloc(PIECE_BYTES);
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	int rc = !state || !piece ? -ENOMEM : fd < 0 ? -errno : 0;
	ssize_t n = 1;

	if (!rc)
		XXH3_64bits_reset(state);
	while (!rc && n) {
		n = read(fd, piece, PIECE_BYTES);
		if (n > 0)
			XXH3_64bits_update(state, piece, (size_t)n);
		else if (n < 0 && errno != EINTR)
			rc = -errno;
	}
	if (!rc)
		snprintf(out, 17, "%016llx", (unsigned long long)XXH3_64bits_digest(state));
	if (fd >= 0)
		close(fd);
	free(piece);
	XXH3_freeState(state);
	return rc;
}

void h2d_bench_runner_write(struct h2d_json *j, const char *key, const char *self)
{
	struct h2d_bench_schedule_seen seen;
	char hash[17];
	const int rc = hash_file(self, hash);

	h2d_bench_schedule_look(0, &seen);
	h2d_json_object_begin(j, key);
	if (rc) {
		h2d_json_null(j, "program_xxh3_64");
		h2d_json_string(j, "program_xxh3_64_why", strerrordesc_np(-rc));
	} else {
		h2d_json_string(j, "program_xxh3_64", hash);
	}
	h2d_bench_schedule_write(j, "scheduling", &seen);
	h2d_json_object_end(j);
}

/* ---- the machine, the build and the scheduling ---- */

/* What an event that began now would say. NULL: out of memory */
static json_t *begin_now(const struct h2d_tool *given, const char *self, const char *file)
{
	struct h2d_tool tool = *given;
	struct h2d_json j;
	json_t *made;
	char *text;

	tool.file = file;
	h2d_json_init_memory(&j, false);
	h2d_envelope_begin(&j, "h2d.bench-event", 1, 0, &tool);
	h2d_bench_runner_write(&j, "runner", self);
	h2d_json_object_end(&j);
	h2d_json_finish(&j);
	text = h2d_json_take(&j);
	made = text ? json_loads(text, 0, NULL) : NULL;
	free(text);
	return made;
}

/* "tool.git" */
static const json_t *at(const json_t *object, const char *place)
{
	char name[64];

	while (object && *place) {
		const size_t n = strcspn(place, ".");

		snprintf(name, sizeof(name), "%.*s", (int)n, place);
		object = json_object_get(object, name);
		place += n + (place[n] == '.');
	}
	return object;
}

static void describe(const json_t *value, char *out, size_t cap)
{
	char *text = json_is_string(value) ? NULL
					   : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

	snprintf(out, cap, "%s", text ? text : json_string_value(value));
	free(text);
}

int h2d_bench_resume_check(const json_t *begun, const char *events, const struct h2d_tool *tool,
			   const char *self, const char *file, const struct h2d_log *log)
{
	static const char machine[] = "on another machine or kernel",
			  build[] = "by another build", scheduling[] = "under other scheduling";
	static const struct {
		const char *place, *what;
	} facts[] = {
		{"environment.kernel.release", machine},
		{"environment.kernel.version", machine},
		{"environment.cpu.model", machine},
		{"environment.memory.total_bytes", machine},
		{"environment.storage.filesystem", machine},
		{"tool.version", build},
		{"tool.git", build},
		{"tool.git_dirty", build},
		{"tool.build_type", build},
		{"tool.sanitizers", build},
		{"tool.compiler", build},
		{"runner.program_xxh3_64", build},
		{"runner.scheduling.policy", scheduling},
		{"runner.scheduling.priority", scheduling},
		{"runner.scheduling.nice", scheduling},
		{"runner.scheduling.cpus", scheduling},
	};
	json_t *here = begin_now(tool, self, file);
	char then_text[160], now_text[160];
	int rc = 0;

	if (!here)
		return h2d_fail(log, H2D_E_NOMEM, "out of memory");
	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]) && !rc; i++) {
		const json_t *then = at(begun, facts[i].place), *now = at(here, facts[i].place);

		if (!then || !now || json_is_null(then) || json_is_null(now) ||
		    json_equal(then, now))
			continue;
		describe(then, then_text, sizeof(then_text));
		describe(now, now_text, sizeof(now_text));
		rc = h2d_fail(log, H2D_E_FORMAT,
			      "%s: begun %s: %s differs (%s then, %s now); take another --out",
			      events, facts[i].what, facts[i].place, then_text, now_text);
	}
	json_decref(here);
	return rc;
}

/* ---- samples ---- */

static int check_ok(const struct h2d_value *sample, const struct h2d_bench_cell *cell)
{
	const struct h2d_value none = {.log = sample->log, .file = sample->file};
	const struct h2d_value loaded = h2d_value_member(sample, "loaded_bytes");
	const struct h2d_value repeats = h2d_value_member(sample, "repeats_ns");
	const uint64_t size = cell->checkpoint->size_bytes;
	uint64_t number;
	double time;
	int rc = h2d_compare_sample(&none, sample, &time);

	if (!rc)
		rc = h2d_compare_number(sample, "wall_ns", 1, &number);
	if (!rc)
		rc = h2d_compare_number(sample, "loaded_bytes", 0, &number);
	if (!rc && number != size)
		rc = h2d_value_fail(&loaded, "is not the checkpoint's size, %llu",
				    (unsigned long long)size);
	if (!rc && cell->repeat_count > 1 && h2d_value_count(&repeats) != cell->repeat_count)
		rc = h2d_value_fail(&repeats, "are not %llu",
				    (unsigned long long)cell->repeat_count);
	return rc;
}

int h2d_bench_resume_sample(json_t *event, const struct h2d_bench_cell *cell,
			    uint64_t block_count, const char *events, size_t line,
			    const struct h2d_log *log)
{
	char file[4200];
	const struct h2d_value root = {.log = log, .file = file, .json = event};
	const struct h2d_value sample = h2d_value_member(&root, "sample");
	const struct h2d_value status = h2d_value_member(&sample, "status");
	const struct h2d_value time = h2d_value_member(&sample, "load_ns");
	const char *word;
	uint64_t block;
	int rc;

	snprintf(file, sizeof(file), "%s: line %zu", events, line);
	rc = h2d_value_text(&status, NULL, &word);
	if (!rc)
		rc = h2d_compare_number(&sample, "block", 0, &block);
	if (!rc && block >= block_count) {
		const struct h2d_value v = h2d_value_member(&sample, "block");

		rc = h2d_value_fail(&v, "there are %llu", (unsigned long long)block_count);
	}
	if (!rc && !strcmp(word, "ok"))
		return check_ok(&sample, cell);
	if (!rc && time.json && !json_is_null(time.json))
		rc = h2d_value_fail(&time, "is there, and the sample is '%.32s'", word);
	return rc;
}
