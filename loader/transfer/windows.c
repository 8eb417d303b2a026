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
	WINDOW_READY,
	WINDOW_FAILED,
	WINDOW_ENDING, /* being unregistered */
};

struct h2d_window {
	enum state state;
	uint32_t file;
	uint64_t begin, bytes; /* of the mapping, whole pages */
	uint64_t uses;	       /* chunks that have not ended yet, begun or not */
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
	uint64_t most;
	struct h2d_window windows[];
};

int h2d_windows_new(struct h2d_windows **out, struct h2d_device *dev,
		    const struct h2d_plan *plan, struct h2d_source_file *inputs,
		    uint64_t window_bytes, uint64_t most, bool drop, const struct h2d_log *log)
{
	struct h2d_windows *w;

	w = h2d_mem->calloc(1, sizeof(*w) + most * sizeof(w->windows[0]));
	*out = w;
	if (!w)
		return h2d_fail(log, H2D_E_NOMEM, "windows: out of memory");
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

/* Chunks that will use the window. Chunks lie in file order, so those are neighbours. */
static uint64_t count_uses(const struct h2d_windows *w, const struct h2d_chunk *c,
			   const struct h2d_window *win)
{
	const struct h2d_chunk *first = w->plan->chunks, *end = first + w->plan->chunk_count;
	const struct h2d_chunk *p = c;
	uint64_t n = 0;

	while (p > first && p[-1].file == win->file &&
	       p[-1].file_offset + p[-1].bytes > win->begin)
		p--;
	for (; p < end && p->file == win->file && p->file_offset < win->begin + win->bytes; p++)
		n += p->source == c->source && p->route == H2D_ROUTE_SOURCE;
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

/* Under the lock: the window in use, or an unused place. */
static struct h2d_window *find(struct h2d_windows *w, uint32_t file, uint64_t begin)
{
	struct h2d_window *unused = NULL;

	for (uint64_t i = 0; i < w->most; i++) {
		struct h2d_window *win = &w->windows[i];

		if (win->state == WINDOW_UNUSED)
			unused = win;
		else if (win->file == file && win->begin == begin)
			return win;
	}
	return unused;
}

static uint64_t mapped_bytes(const struct h2d_map *m)
{
	return (m->bytes + m->page_bytes - 1) / m->page_bytes * m->page_bytes;
}

static int get(struct h2d_windows *w, const struct h2d_chunk *c, uint64_t begin,
	       struct h2d_window **out)
{
	const struct h2d_map *map = &w->inputs[c->file].map;
	struct h2d_window *win;
	int rc;

	pthread_mutex_lock(&w->lock);
	win = find(w, c->file, begin);
	if (!win) {
		pthread_mutex_unlock(&w->lock);
		return h2d_fail(&w->log, H2D_E_INTERNAL, "more windows than planned");
	}
	if (win->state == WINDOW_UNUSED) {
		*win = (struct h2d_window){
			.state = WINDOW_PREPARING, .file = c->file, .begin = begin};
		win->bytes = mapped_bytes(map) - begin;
		if (win->bytes > w->facts.window_bytes)
			win->bytes = w->facts.window_bytes;
		win->uses = count_uses(w, c, win);
		pthread_mutex_unlock(&w->lock);
		rc = prepare(w, win);
		pthread_mutex_lock(&w->lock);
		win->status = rc;
		win->state = rc ? WINDOW_FAILED : WINDOW_READY;
		pthread_cond_broadcast(&w->change);
	}
	while (win->state == WINDOW_PREPARING)
		pthread_cond_wait(&w->change, &w->lock);
	rc = win->state == WINDOW_FAILED ? win->status : 0;
	pthread_mutex_unlock(&w->lock);
	*out = rc ? NULL : win;
	return rc;
}

/* Nobody uses it any more. Called with the lock, which is given up meanwhile. */
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
}

static void put(struct h2d_windows *w, struct h2d_window *win)
{
	if (!win)
		return;
	pthread_mutex_lock(&w->lock);
	if (!--win->uses)
		end(w, win);
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
	if (rc || last == first)
		return rc;
	rc = get(w, c, last * size, &got[1]);
	if (rc) {
		h2d_windows_put(w, got);
		return rc;
	}
	*split = w->inputs[c->file].map.base + last * size;
	return 0;
}

void h2d_windows_put(struct h2d_windows *w, struct h2d_window *got[2])
{
	put(w, got[0]);
	put(w, got[1]);
	got[0] = got[1] = NULL;
}
