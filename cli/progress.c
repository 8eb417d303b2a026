/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/clock.h"
#include "text.h"

/* A bar is on the last line of the terminal. */
static _Atomic int bar_shown;

void h2d_progress_begin(struct h2d_progress *p, const struct h2d_cli *cli, const char *phase)
{
	const char *term = getenv("TERM"), *wish = cli->common.progress;

	*p = (struct h2d_progress){.cli = cli, .phase = phase, .begin_ns = h2d_now_ns()};
	pthread_mutex_init(&p->lock, NULL);
	if (wish && !strcmp(wish, "jsonl"))
		p->style = H2D_PROGRESS_JSONL;
	else if ((!wish || !strcmp(wish, "auto")) && !cli->common.quiet &&
		 isatty(STDERR_FILENO) && term && strcmp(term, "dumb"))
		p->style = H2D_PROGRESS_BAR;
}

void h2d_progress_clear(void)
{
	if (atomic_exchange(&bar_shown, 0))
		fputs("\r\033[K", stderr);
}

static void event(const struct h2d_progress *p, const char *name, const bool *ok)
{
	uint64_t elapsed = h2d_now_ns() - p->begin_ns;
	struct h2d_json j;
	char *line;

	h2d_json_init_memory(&j, false);
	h2d_json_object_begin(&j, NULL);
	h2d_json_string(&j, "event", name);
	h2d_json_string(&j, "phase", p->phase);
	h2d_json_u64(&j, "done_bytes", p->done_bytes);
	h2d_json_u64(&j, "total_bytes", p->total_bytes);
	h2d_json_u64(&j, "elapsed_ns", elapsed);
	if (ok)
		h2d_json_bool(&j, "ok", *ok);
	h2d_json_object_end(&j);
	h2d_json_finish(&j);
	line = h2d_json_take(&j);
	if (line)
		fputs(line, stderr);
	free(line);
}

static void bar(const struct h2d_progress *p)
{
	double part = p->total_bytes ? (double)p->done_bytes / (double)p->total_bytes : 0;
	double seconds = (double)(h2d_now_ns() - p->begin_ns) / 1e9;
	double rate = seconds > 0 ? (double)p->done_bytes / seconds : 0;
	char done[32], total[32], speed[32], marks[41], eta[32] = "--:--";
	struct winsize ws = {0};
	int width;

	ioctl(STDERR_FILENO, TIOCGWINSZ, &ws);
	width = ws.ws_col > 100 ? 40 : ws.ws_col > 76 ? ws.ws_col - 60 : 10;
	for (int i = 0; i < width; i++)
		marks[i] = i < (int)(part * width) ? '#' : '.';
	marks[width] = 0;
	if (rate > 0 && p->total_bytes >= p->done_bytes) {
		double left = (double)(p->total_bytes - p->done_bytes) / rate;
		unsigned s = left < 359999 ? (unsigned)left : 359999;

		snprintf(eta, sizeof(eta), "%u:%02u", s / 60, s % 60);
	}
	h2d_text_bytes(done, sizeof(done), p->done_bytes);
	h2d_text_bytes(total, sizeof(total), p->total_bytes);
	h2d_text_bytes(speed, sizeof(speed), (uint64_t)rate);
	fprintf(stderr, "\r\033[K%s [%s] %3.0f %%  %s of %s  %s/s  ETA %s", p->phase, marks,
		part * 100, done, total, speed, eta);
	atomic_store(&bar_shown, 1);
}

int h2d_progress_update(void *user, uint64_t done_bytes, uint64_t total_bytes)
{
	struct h2d_progress *p = user;

	pthread_mutex_lock(&p->lock);
	p->done_bytes = done_bytes;
	p->total_bytes = total_bytes;
	if (p->style == H2D_PROGRESS_BAR)
		bar(p);
	else if (p->style == H2D_PROGRESS_JSONL)
		event(p, "progress", NULL);
	pthread_mutex_unlock(&p->lock);
	return h2d_signals_caught() != 0;
}

void h2d_progress_end(struct h2d_progress *p, bool ok)
{
	if (p->style == H2D_PROGRESS_BAR)
		h2d_progress_clear();
	else if (p->style == H2D_PROGRESS_JSONL)
		event(p, "finished", &ok);
	pthread_mutex_destroy(&p->lock);
}
