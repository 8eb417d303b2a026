/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mkckpt.h"

enum { BUFFER_BYTES = 4 << 20 };

void put_bytes(struct bytes *b, const void *data, size_t bytes)
{
	if (b->cap - b->len < bytes) {
		b->cap = (b->cap + bytes) * 2;
		b->data = need(realloc(b->data, b->cap));
	}
	if (bytes)
		memcpy(b->data + b->len, data, bytes);
	b->len += bytes;
}

void put_le(struct bytes *b, uint64_t value, unsigned bytes)
{
	unsigned char le[8];

	for (unsigned i = 0; i < 8; i++)
		le[i] = (unsigned char)(value >> 8 * i);
	put_bytes(b, le, bytes);
}

void output_open(struct output *o, const char *path, bool sync)
{
	*o = (struct output){.path = path, .sync = sync};
	o->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (o->fd < 0)
		die("%s: %s", path, strerror(errno));
	o->buf = need(malloc(BUFFER_BYTES));
}

static void drain(struct output *o)
{
	size_t done = 0;

	while (done < o->used) {
		ssize_t n = write(o->fd, o->buf + done, o->used - done);

		if (n < 0 && errno != EINTR)
			die("%s: %s", o->path, strerror(errno));
		done += n > 0 ? (size_t)n : 0;
	}
	o->used = 0;
}

/* Room for at least one byte. */
static size_t room(struct output *o)
{
	if (o->used == BUFFER_BYTES)
		drain(o);
	return BUFFER_BYTES - o->used;
}

void output_put(struct output *o, const void *data, size_t bytes)
{
	const unsigned char *from = data;

	o->written += bytes;
	while (bytes) {
		size_t n = room(o);

		n = n < bytes ? n : bytes;
		memcpy(o->buf + o->used, from, n);
		o->used += n;
		from += n;
		bytes -= n;
	}
}

void output_zeros(struct output *o, uint64_t bytes)
{
	static const unsigned char zeros[4096];

	for (; bytes; bytes -= bytes < sizeof(zeros) ? bytes : sizeof(zeros))
		output_put(o, zeros, bytes < sizeof(zeros) ? bytes : sizeof(zeros));
}

/* The finaliser of SplitMix64 (Steele, Lea, Flood 2014) over a counter: any word of any tensor
 * can be computed alone. */
static inline uint64_t word_at(uint64_t key, uint64_t index)
{
	uint64_t z = key + index * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

void output_tensor(struct output *o, uint64_t seed, uint64_t ordinal, uint64_t bytes)
{
	uint64_t key = word_at(word_at(seed, 1), ordinal + 1), index = 0;

	o->written += bytes;
	while (bytes >= 8) {
		size_t n = room(o) / 8;

		if (!n) {
			drain(o);
			continue;
		}
		n = n < bytes / 8 ? n : bytes / 8;
		for (size_t i = 0; i < n; i++) {
			uint64_t w = word_at(key, index + i);

			memcpy(o->buf + o->used + 8 * i, &w, 8);
		}
		index += n;
		o->used += 8 * n;
		bytes -= 8 * n;
	}
	if (bytes) {
		uint64_t w = word_at(key, index);

		o->written -= bytes;
		output_put(o, &w, bytes);
	}
}

void output_close(struct output *o)
{
	drain(o);
	if (o->sync && fsync(o->fd))
		die("%s: %s", o->path, strerror(errno));
	if (close(o->fd))
		die("%s: %s", o->path, strerror(errno));
	free(o->buf);
}
