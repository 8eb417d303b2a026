/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the fake devices, and host memory that is pinned for them. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "internal.h"
#include "script.h"

struct range {
	struct range *next;
	enum { DEVICE, HOST, REGISTERED } kind;
	int device;
	unsigned char *at, *storage;
	uint64_t bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range *ranges;

static uint64_t whole_pages(uint64_t bytes)
{
	return (bytes + 4095) & ~UINT64_C(4095);
}

/* Under the lock. */
static struct range *find(int kind, const void *p, uint64_t bytes)
{
	const unsigned char *at = p;

	for (struct range *r = ranges; r; r = r->next)
		if ((kind < 0 || (int)r->kind == kind) && at >= r->at &&
		    at + bytes <= r->at + r->bytes)
			return r;
	return NULL;
}

static void add(int kind, int device, void *at, void *storage, uint64_t bytes)
{
	struct range *r = calloc(1, sizeof(*r));

	if (!r)
		abort();
	*r = (struct range){ranges, kind, device, at, storage, bytes};
	ranges = r;
}

static struct range *take(int kind, const void *p)
{
	for (struct range **at = &ranges; *at; at = &(*at)->next)
		if ((int)(*at)->kind == kind && (*at)->at == p) {
			struct range *r = *at;

			*at = r->next;
			return r;
		}
	return NULL;
}

static uint64_t used_bytes(int device)
{
	uint64_t sum = 0;

	for (struct range *r = ranges; r; r = r->next)
		if (r->kind == DEVICE && r->device == device)
			sum += r->bytes;
	return sum;
}

uint64_t fake_memory_bytes(void)
{
	return (uint64_t)fake_script_parameter("memory_bytes", 1 << 30);
}

void fake_memory_info(int d, size_t *available, size_t *total)
{
	pthread_mutex_lock(&lock);
	*total = fake_memory_bytes();
	*available = *total > used_bytes(d) ? *total - used_bytes(d) : 0;
	pthread_mutex_unlock(&lock);
}

int fake_alloc(int d, void **p, size_t bytes)
{
	uint64_t pages = whole_pages(bytes);
	void *at, *storage;
	int code = 0;

	if (!bytes)
		return FAKE_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	if (used_bytes(d) + bytes > fake_memory_bytes()) {
		code = FAKE_OUT_OF_MEMORY;
		goto out;
	}
	at = mmap(NULL, pages, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	storage = mmap(NULL, pages, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED || storage == MAP_FAILED)
		abort();
	add(DEVICE, d, at, storage, bytes);
	*p = at;
out:
	pthread_mutex_unlock(&lock);
	return code;
}

int fake_free(int d, void *p)
{
	struct range *r;

	if (!p)
		return 0;
	pthread_mutex_lock(&lock);
	r = take(DEVICE, p);
	pthread_mutex_unlock(&lock);
	if (!r || r->device != d)
		fake_violation("free of what is not device memory of this device");
	if (!r)
		return FAKE_INVALID_VALUE;
	if (fake_is_pending(r->storage, r->bytes))
		fake_violation("device memory freed under a copy");
	munmap(r->at, whole_pages(r->bytes));
	munmap(r->storage, whole_pages(r->bytes));
	free(r);
	return 0;
}

int fake_host_alloc(void **p, size_t bytes)
{
	void *at = mmap(NULL, whole_pages(bytes), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return FAKE_OUT_OF_MEMORY;
	pthread_mutex_lock(&lock);
	add(HOST, 0, at, NULL, bytes);
	pthread_mutex_unlock(&lock);
	*p = at;
	return 0;
}

int fake_host_free(void *p)
{
	struct range *r;

	pthread_mutex_lock(&lock);
	r = take(HOST, p);
	pthread_mutex_unlock(&lock);
	if (!r) {
		fake_violation("free of host memory that was not allocated here");
		return FAKE_INVALID_VALUE;
	}
	if (fake_is_pending(r->at, r->bytes))
		fake_violation("pinned memory freed under a copy");
	munmap(r->at, whole_pages(r->bytes));
	free(r);
	return 0;
}

int fake_register(void *p, size_t bytes, bool read_only)
{
	int code = 0;

	if (!p || !bytes)
		return FAKE_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	for (struct range *r = ranges; r; r = r->next)
		if (r->kind != DEVICE && (unsigned char *)p < r->at + r->bytes &&
		    r->at < (unsigned char *)p + bytes)
			code = FAKE_ALREADY_REGISTERED;
	if (!code) {
		add(REGISTERED, 0, p, NULL, bytes);
		fake_count_register(read_only);
	}
	pthread_mutex_unlock(&lock);
	return code;
}

int fake_unregister(void *p)
{
	struct range *r;

	pthread_mutex_lock(&lock);
	r = take(REGISTERED, p);
	pthread_mutex_unlock(&lock);
	if (!r) {
		fake_violation("what is unregistered was not registered");
		return FAKE_NOT_REGISTERED;
	}
	if (fake_is_pending(r->at, r->bytes))
		fake_violation("memory unregistered under a copy");
	free(r);
	return 0;
}

void *fake_device_bytes(int d, const void *p, uint64_t bytes)
{
	struct range *r;
	void *at = NULL;

	pthread_mutex_lock(&lock);
	r = find(DEVICE, p, bytes);
	if (r && (d < 0 || r->device == d))
		at = r->storage + ((const unsigned char *)p - r->at);
	pthread_mutex_unlock(&lock);
	return at;
}

void *fake_bytes(const void *p, uint64_t bytes)
{
	return fake_device_bytes(-1, p, bytes);
}

bool fake_is_pinned(const void *p, uint64_t bytes)
{
	bool pinned;

	pthread_mutex_lock(&lock);
	pinned = find(HOST, p, bytes) || find(REGISTERED, p, bytes);
	pthread_mutex_unlock(&lock);
	return pinned;
}

void fake_memory_live(struct fake_live *out)
{
	pthread_mutex_lock(&lock);
	for (struct range *r = ranges; r; r = r->next)
		switch (r->kind) {
		case DEVICE:
			out->alloc_count++;
			out->alloc_bytes += r->bytes;
			break;
		case HOST:
			out->host_alloc_count++;
			break;
		case REGISTERED:
			out->register_count++;
			out->register_bytes += r->bytes;
			break;
		}
	pthread_mutex_unlock(&lock);
}

void fake_memory_sweep(void)
{
	pthread_mutex_lock(&lock);
	while (ranges) {
		struct range *r = ranges;

		ranges = r->next;
		if (r->kind != REGISTERED)
			munmap(r->at, whole_pages(r->bytes));
		if (r->kind == DEVICE)
			munmap(r->storage, whole_pages(r->bytes));
		free(r);
	}
	pthread_mutex_unlock(&lock);
}
