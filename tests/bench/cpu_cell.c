/* SPDX-License-Identifier: Apache-2.0 */
/* A cell that tells the processor time of a load: a busy machine changes it little, so that a
 * planted slow-down can be found there too. Speaks docs/bench-protocol.md. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "h2d/h2d.h"

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static json_t *read_line(void)
{
	static char line[1 << 16];

	return fgets(line, sizeof(line), stdin) ? json_loads(line, 0, NULL) : NULL;
}

static int fail(const char *what)
{
	printf("{\"event\":\"error\",\"kind\":\"failed\",\"message\":\"%s\"}\n", what);
	return 1;
}

static int load(const char *file)
{
	struct h2d_load_opts opts = H2D_OPTS(opts);
	struct h2d_report report = H2D_OPTS(report);
	struct h2d_checkpoint *ckpt;
	struct h2d_weights *weights;
	struct h2d_device *dev;
	uint64_t begin = h2d_now_ns(), cpu, end;

	opts.path = "pread";
	opts.threads = 1;
	if (h2d_checkpoint_open(file, NULL, &ckpt) || h2d_device_open("null", NULL, &dev))
		return fail("cannot be opened");
	cpu = cpu_ns();
	if (h2d_load(ckpt, dev, &opts, &weights))
		return fail("cannot be loaded");
	cpu = cpu_ns() - cpu;
	end = h2d_now_ns();
	h2d_weights_report(weights, &report);
	/* Several threads may use more of it than passed. */
	if (cpu > end - begin)
		cpu = end - begin;
	printf("{\"event\":\"loaded\",\"begin_ns\":%llu,\"end_ns\":%llu,\"elapsed_ns\":%llu,"
	       "\"loaded_bytes\":%llu}\n",
	       (unsigned long long)begin, (unsigned long long)end, (unsigned long long)cpu,
	       (unsigned long long)report.loaded_bytes);
	h2d_weights_free(weights);
	h2d_device_close(dev);
	h2d_checkpoint_close(ckpt);
	return 0;
}

int main(void)
{
	json_t *request = read_line();
	const char *file = json_string_value(json_object_get(request, "checkpoint"));
	json_t *command;
	int rc = 1;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (file)
		puts("{\"event\":\"ready\",\"name\":\"cpu\",\"version\":\"1\"}");
	command = file ? read_line() : NULL;
	if (command)
		rc = load(file);
	json_decref(command);
	json_decref(request);
	while (!rc && getchar() != EOF)
		;
	return rc;
}
