/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/windows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "file/cache.h"

enum state {
	WINDOW_UNUSED,
	WINDOW_PREPARING, /* its first chunk reads it in */
	WINDOW_READY,	  /* without users it is idle: kept for those that come */
	WINDOW_FAILED,
	WINDOW_ENDING, /* being unregistered */
};

struct h2d_window {
	enum state state;
	uint32_t file;
	uint64_t begin, bytes; /* of the mapping, whole pages */
	uint64_t users;	       /* chunks under way that lie in it */
	uint64_t coming;       /* more of them, as far as neighbours in the plan tell */
	bool registered;
	int status; /* of a failed one */
};

struct h2d_windows {
	struct h2d_device *dev;
	const struct h2d_plan *plan;
	struct h2d_source_file *inputs;
	struct h2d_log log;
	bool drop;
	pthread_mutex_t lock;
	pthread_cond_t change;
	bool checked, checking; /* whether registering leaves the file's pages what they are */
	bool never;		/* it does not: nothing is registered any more */
	uint64_t registered_bytes;
	struct h2d_windows_facts facts;
	unsigned char *began; /* per chunk of the plan: it has had its windows */
	uint64_t most;
	struct h2d_window windows[];
};

int h2d_windows_new(struct h2d_windows **out, struct h2d_device *dev,
		    const struct h2d_plan *plan, struct h2d_source_file *inputs,
		    uint64_t window_bytes, uint64_t most, bool drop, const struct h2d_log *log)
{
	struct h2d_windows *w;

	*out = NULL;
	w = h2d_mem->calloc(1, sizeof(*w) + most * sizeof(w->windows[0]));
	if (w)
		w->began = h2d_mem->calloc(plan->chunk_count ? plan->chunk_count : 1, 1);
	if (!w || !w->began) {
		free(w);
		return h2d_fail(log, H2D_E_NOMEM, "windows: out of memory");
	}
	*out = w;
	w->dev = dev;
	w->plan = plan;
	w->inputs = inputs;
	w->log = *log;
	w->drop = drop;
	w->most = most;
	w->facts.window_bytes = window_bytes;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->change, NULL);
	return 0;
}

void h2d_windows_free(struct h2d_windows *w, bool quarantine, struct h2d_windows_facts *facts)
{
	if (!w)
		return;
	for (uint64_t i = 0; i < w->most; i++) {
		struct h2d_window *win = &w->windows[i];

		if (!win->registered)
			continue;
		/* A load that failed leaves windows whose later chunks never came. */
		if (quarantine)
			atomic_fetch_add(&w->dev->quarantined_bytes, win->bytes);
		else
			w->dev->backend->host_unregister(
				w->dev, w->inputs[win->file].map.base + win->begin, win->bytes);
	}
	*facts = w->facts;
	pthread_cond_destroy(&w->change);
	pthread_mutex_destroy(&w->lock);
	free(w->began);
	free(w);
}

/* Under the lock: not to be registered, and why. */
static void refuse(struct h2d_windows *w, const char *why, const char *detail)
{
	w->facts.refused_count++;
	if (!w->facts.why[0])
		snprintf(w->facts.why, sizeof(w->facts.why), "%s%s%s", why,
			 detail[0] ? ": " : "", detail);
}

static bool lies_in(const struct h2d_chunk *c, const struct h2d_window *win)
{
	return c->file == win->file && c->file_offset < win->begin + win->bytes &&
	       c->file_offset + c->bytes > win->begin;
}

/* Chunks that will use the window: neighbours in the plan that have not begun. Where chunks do
 * not lie in file order there may be more of them, for which it is then registered again. */
static uint64_t count_coming(const struct h2d_windows *w, const struct h2d_chunk *c,
			     const struct h2d_window *win)
{
	const struct h2d_chunk *first = w->plan->chunks, *end = first + w->plan->chunk_count;
	const struct h2d_chunk *p = c;
	uint64_t n = 0;

	while (p > first && lies_in(p - 1, win))
		p--;
	for (; p < end && lies_in(p, win); p++)
		n += !w->began[p - first] && p->source == c->source &&
		     p->route == H2D_ROUTE_SOURCE;
	return n;
}

/* What registering did to the pages. */
static void check_pages(struct h2d_windows *w, struct h2d_window *win, unsigned char *base)
{
	char detail[80];
	uint64_t bytes;
	int rc = h2d_map_anonymous(base, win->bytes, &bytes);

	pthread_mutex_lock(&w->lock);
	w->checking = false;
	w->checked = true;
	w->never = !rc && bytes;
	pthread_cond_broadcast(&w->change);
	if (w->never) {
		snprintf(detail, sizeof(detail), "%llu bytes of the first window",
			 (unsigned long long)bytes);
		w->registered_bytes -= win->bytes;
		refuse(w, "registering copied the file's pages to anonymous memory", detail);
	}
	pthread_mutex_unlock(&w->lock);
	if (!w->never)
		return;
	w->dev->backend->host_unregister(w->dev, base, win->bytes);
	win->registered = false;
}

/* Under the lock, which is given up meanwhile: the first registration is made alone. */
static bool may_register(struct h2d_windows *w, bool *first)
{
	while (w->checking)
		pthread_cond_wait(&w->change, &w->lock);
	*first = !w->checked;
	w->checking = *first;
	return !w->never;
}

/* Before it happens, so that the bound holds for what is under way too. */
static void count_registered(struct h2d_windows *w, uint64_t bytes)
{
	w->registered_bytes += bytes;
	if (w->registered_bytes > w->facts.registered_max_bytes)
		w->facts.registered_max_bytes = w->registered_bytes;
}

/* Without the lock. */
static int prepare(struct h2d_windows *w, struct h2d_window *win)
{
	struct h2d_source_file *in = &w->inputs[win->file];
	unsigned char *base = in->map.base + win->begin;
	bool read_only = w->dev->caps & H2D_DEV_REGISTER_READ_ONLY, first = false, may;
	int rc;

	rc = h2d_map_populate(&in->map, in->file, win->begin, win->bytes, &w->log);
	if (rc && rc != H2D_E_UNSUPPORTED)
		return rc;
	pthread_mutex_lock(&w->lock);
	may = !(w->facts.window_bytes % in->map.page_bytes) && may_register(w, &first);
	if (!may)
		refuse(w, "the file's pages are larger than a window", "");
	else
		count_registered(w, win->bytes);
	pthread_mutex_unlock(&w->lock);
	if (!may)
		return 0;
	rc = w->dev->backend->host_register(w->dev, base, win->bytes, read_only);
	pthread_mutex_lock(&w->lock);
	if (rc) {
		refuse(w, "the device refused to register a window", h2d_status_string(rc));
		w->registered_bytes -= win->bytes;
		w->checking = first ? false : w->checking;
		pthread_cond_broadcast(&w->change);
	} else {
		win->registered = true;
		w->facts.registered_count++;
	}
	pthread_mutex_unlock(&w->lock);
	if (!rc && first)
		check_pages(w, win, base);
	return 0;
}

static uint64_t mapped_bytes(const struct h2d_map *m)
{
	return (m->bytes + m->page_bytes - 1) / m->page_bytes * m->page_bytes;
}

/* Nobody uses it. Called with the lock, which is given up meanwhile. */
static void end(struct h2d_windows *w, struct h2d_window *win)
{
	struct h2d_source_file *in = &w->inputs[win->file];
	int rc = 0;

	win->state = WINDOW_ENDING;
	pthread_mutex_unlock(&w->lock);
	if (win->registered)
		rc = w->dev->backend->host_unregister(w->dev, in->map.base + win->begin,
						      win->bytes);
	if (rc)
		h2d_log_line(&w->log, H2D_LOG_WARNING,
			     "%s: a window at offset %llu cannot be unregistered: %s",
			     in->file->path, (unsigned long long)win->begin,
			     h2d_status_string(rc));
	if (w->drop) {
		h2d_map_release(&in->map, win->begin, win->bytes);
		h2d_cache_drop(in->file, win->begin, win->bytes);
	}
	pthread_mutex_lock(&w->lock);
	if (win->registered)
		w->registered_bytes -= win->bytes;
	win->registered = false;
	win->state = WINDOW_UNUSED;
	pthread_cond_broadcast(&w->change);
}

/* Under the lock: the window at that place, else an unused one, else one that is idle. A chunk
 * holds or ends two at most and there are more than twice as many as chunks under way, so that
 * there always is one. */
static struct h2d_window *find(struct h2d_windows *w, uint32_t file, uint64_t begin)
{
	struct h2d_window *unused = NULL, *idle = NULL;

	for (uint64_t i = 0; i < w->most; i++) {
		struct h2d_window *win = &w->windows[i];

		if (win->state == WINDOW_UNUSED)
			unused = win;
		else if (win->file == file && win->begin == begin)
			return win;
		else if (win->state == WINDOW_READY && !win->users)
			idle = win;
	}
	return unused ? unused : idle;
}

/* The window at that place, or one that is unused. Called with the lock, which may be given up
 * meanwhile. */
static struct h2d_window *obtain(struct h2d_windows *w, uint32_t file, uint64_t begin)
{
	for (;;) {
		struct h2d_window *win = find(w, file, begin);
		bool here;

		if (!win || win->state == WINDOW_UNUSED)
			return win;
		here = win->file == file && win->begin == begin;
		if (here && win->state != WINDOW_ENDING)
			return win;
		if (here)
			pthread_cond_wait(&w->change, &w->lock);
		else
			end(w, win);
	}
}

/* Called with the lock, which is given up meanwhile. */
static void start(struct h2d_windows *w, struct h2d_window *win, const struct h2d_chunk *c,
		  uint64_t begin)
{
	*win = (struct h2d_window){
		.state = WINDOW_PREPARING, .file = c->file, .begin = begin, .users = 1};
	win->bytes = mapped_bytes(&w->inputs[c->file].map) - begin;
	if (win->bytes > w->facts.window_bytes)
		win->bytes = w->facts.window_bytes;
	win->coming = count_coming(w, c, win);
	pthread_mutex_unlock(&w->lock);
	win->status = prepare(w, win);
	pthread_mutex_lock(&w->lock);
	win->state = win->status ? WINDOW_FAILED : WINDOW_READY;
	pthread_cond_broadcast(&w->change);
}

/* Under the lock, which may be given up meanwhile. */
static void drop_user(struct h2d_windows *w, struct h2d_window *win)
{
	if (!--win->users && (!win->coming || win->state == WINDOW_FAILED))
		end(w, win);
}

static int get(struct h2d_windows *w, const struct h2d_chunk *c, uint64_t begin,
	       struct h2d_window **out)
{
	struct h2d_window *win;
	int rc;

	pthread_mutex_lock(&w->lock);
	win = obtain(w, c->file, begin);
	if (!win) {
		pthread_mutex_unlock(&w->lock);
		return h2d_fail(&w->log, H2D_E_INTERNAL, "more windows than planned");
	}
	if (win->state == WINDOW_UNUSED)
		start(w, win, c, begin);
	else
		win->users++;
	win->coming -= win->coming != 0;
	while (win->state == WINDOW_PREPARING)
		pthread_cond_wait(&w->change, &w->lock);
	rc = win->state == WINDOW_FAILED ? win->status : 0;
	if (rc)
		drop_user(w, win);
	pthread_mutex_unlock(&w->lock);
	*out = rc ? NULL : win;
	return rc;
}

static void put(struct h2d_windows *w, struct h2d_window *win)
{
	if (!win)
		return;
	pthread_mutex_lock(&w->lock);
	drop_user(w, win);
	pthread_mutex_unlock(&w->lock);
}

int h2d_windows_get(struct h2d_windows *w, const struct h2d_chunk *c, struct h2d_window *got[2],
		    const unsigned char **split)
{
	uint64_t size = w->facts.window_bytes;
	uint64_t first = c->file_offset / size, last = (c->file_offset + c->bytes - 1) / size;
	int rc;

	got[0] = got[1] = NULL;
	*split = NULL;
	rc = get(w, c, first * size, &got[0]);
	if (!rc && last != first) {
		rc = get(w, c, last * size, &got[1]);
		*split = rc ? NULL : w->inputs[c->file].map.base + last * size;
	}
	if (rc) {
		h2d_windows_put(w, got);
		return rc;
	}
	pthread_mutex_lock(&w->lock);
	w->began[c - w->plan->chunks] = 1;
	pthread_mutex_unlock(&w->lock);
	return 0;
}

void h2d_windows_put(struct h2d_windows *w, struct h2d_window *got[2])
{
	put(w, got[0]);
	put(w, got[1]);
	got[0] = got[1] = NULL;
}
