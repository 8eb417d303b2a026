/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The doctor's measurement: the reproducer with few bytes, in a process of its own, since a
 * runtime that is broken may hang, and one that was started cannot be stopped.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "doctor_measure.h"
#include "repro/repro.h"
#include "transfer_options.h"

/* One warm-up and three cells of 2 MiB: 8 MiB in all. On a stale kernel one of them waits for
 * a second, or two. */
static const uint64_t sizes[] = {2 << 20};
static const char *const cells[] = {"ro-present", "rw-absent", "rw-present"};

static void ignore(void *user, enum h2d_log_level level, const char *line)
{
	char *why = user;

	if (level == H2D_LOG_ERROR && !why[0])
		snprintf(why, 128, "%s", line);
}

/* The GPU that is here, else the kernel's own driver behind our module. */
static struct h2d_device *open_device(char *why)
{
	struct h2d_device_opts opts = H2D_OPTS(opts);
	const char *spec = h2d_default_device();
	struct h2d_device *dev = NULL;
	char line[128] = "";

	if (!strcmp(spec, "host"))
		spec = "hmm:shipped";
	opts.log = ignore;
	opts.log_user = line;
	if (!h2d_device_open(spec, &opts, &dev))
		return dev;
	if (!strncmp(spec, "hmm", 3))
		snprintf(why, 128, "no device is here whose copies it could time");
	else
		h2d_say(why, 128, "%s", line);
	return NULL;
}

static void fill(const struct h2d_repro_result *r, struct h2d_doctor_measured *out)
{
	const struct h2d_verdict *v = &r->verdict;

	snprintf(out->device, sizeof(out->device), "%s", r->device_name);
	snprintf(out->verdict, sizeof(out->verdict), "%s", h2d_verdict_value_name(v->value));
	if (v->value == H2D_VERDICT_INCONCLUSIVE || v->value == H2D_VERDICT_NOT_APPLICABLE) {
		h2d_say(out->why, sizeof(out->why), "%s on %s: %s", out->verdict, out->device,
			v->evidence_count ? v->evidence[v->evidence_count - 1] : "no reason");
		return;
	}
	out->done = true;
	out->policy = v->retry_policy;
	out->confidence = v->confidence;
	/* On the hmm device it is our module that asks for write access, not the driver. */
	if (strcmp(r->backend, "hmm")) {
		out->permission = v->permission_rule;
		out->cow_penalty_ratio = v->cow_penalty_ratio;
	}
	h2d_say(out->statement, sizeof(out->statement), "measured on %s%s: %s (%s)",
		out->device,
		strcmp(r->backend, "hmm") ? "" : ", which asks for write access as drivers do",
		out->verdict, v->evidence_count ? v->evidence[0] : "no evidence line");
}

static void measure(struct h2d_doctor_measured *out)
{
	struct h2d_repro_opts opts = {
		.sizes = sizes,
		.size_count = 1,
		.cells = cells,
		.cell_count = sizeof(cells) / sizeof(cells[0]),
		.log = {ignore, out->why},
	};
	struct h2d_repro_result *r = NULL;
	struct h2d_device *dev = open_device(out->why);
	int rc;

	if (!dev)
		return;
	rc = h2d_repro_run(dev, &opts, &r);
	if (!rc)
		fill(r, out);
	else if (!out->why[0])
		snprintf(out->why, sizeof(out->why), "%s", h2d_status_string(rc));
	h2d_repro_free(r);
	h2d_device_close(dev);
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static size_t receive(int fd, int64_t end_ms, void *to, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int64_t left = end_ms - now_ms();
		ssize_t n;

		if (left <= 0 || h2d_signals_caught())
			break;
		n = poll(&p, 1, (int)left);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		n = read(fd, (char *)to + done, bytes - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

void h2d_doctor_measure(unsigned limit_ms, struct h2d_doctor_measured *out)
{
	struct h2d_doctor_measured got;
	int64_t end_ms = now_ms() + limit_ms;
	int ends[2], status;
	pid_t pid;

	memset(out, 0, sizeof(*out));
	if (pipe(ends)) {
		snprintf(out->why, sizeof(out->why), "%s", strerrordesc_np(errno));
		return;
	}
	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		snprintf(out->why, sizeof(out->why), "no process could be started for it: %s",
			 strerrordesc_np(errno));
		close(ends[0]);
		close(ends[1]);
		return;
	}
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[0]);
		/* What a vendor's runtime prints is not ours to show. */
		if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
			_exit(1);
		measure(out);
		_exit(write(ends[1], out, sizeof(*out)) == (ssize_t)sizeof(*out) ? 0 : 1);
	}
	close(ends[1]);
	if (receive(ends[0], end_ms, &got, sizeof(got)) == sizeof(got))
		*out = got;
	else if (now_ms() >= end_ms)
		snprintf(out->why, sizeof(out->why), "the device did not answer within %u s",
			 limit_ms / 1000);
	else
		snprintf(out->why, sizeof(out->why), "the process that measured ended early");
	close(ends[0]);
	kill(pid, SIGKILL);
	/* Inside a driver it may not die: it is left to init then. */
	for (int i = 0; i < 20 && waitpid(pid, &status, WNOHANG) == 0; i++)
		usleep(10000);
}
