// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls amdgpu_hmm_range_get_pages() of the amdgpu module that is loaded, as it is.
 *
 * The function is not exported: a kprobe registered by name tells its address, and is removed
 * at once. A reference on the module, taken beforehand through its kobject (the one way that
 * needs no unexported symbol and has no race with unloading), keeps the address good. The
 * prototype is given by user space when this module is loaded, and never changes.
 */
#include <linux/kobject.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "internal.h"

#define DRIVER_NAME	"amdgpu"
#define DRIVER_FUNCTION "amdgpu_hmm_range_get_pages"

/* Room for what later drivers may append to their range structure. */
#define RANGE_SPARE_BYTES 192

/*
 * struct amdgpu_hmm_range of drivers/gpu/drm/amd/amdgpu/amdgpu_hmm.h: the hmm_range comes
 * first, then a buffer object that only its own alloc and free look at. User space has checked
 * in BTF that the real one starts so and fits in here.
 */
struct driver_range {
	struct hmm_range hmm_range;
	void *bo;
	u8 spare[RANGE_SPARE_BYTES];
};

typedef int (*get_pages_mm_fn)(struct mmu_interval_notifier *notifier, struct mm_struct *mm,
			       struct page **pages, u64 start, u64 npages,
			       struct hmm_range **range, bool readonly, bool mmap_locked,
			       void *owner);
typedef int (*get_pages_pages_fn)(struct mmu_interval_notifier *notifier, u64 start, u64 npages,
				  bool readonly, void *owner, struct page **pages,
				  struct hmm_range **range);
typedef int (*get_pages_range_fn)(struct mmu_interval_notifier *notifier, u64 start, u64 npages,
				  bool readonly, void *owner, struct driver_range *range);

static struct {
	struct module *module;
	void *function;
	int signature;
	bool present;
	u32 state;
	int error;
} driver = {
	.signature = H2D_HMM_SIGNATURE_NONE,
	.state = H2D_HMM_DRIVER_ABSENT,
};

/* The prototypes with a range that the driver allocates: kzalloc, its pfns by kvmalloc. */
static int take_result(int err, struct hmm_range *range, struct h2d_pages *pages)
{
	if (err)
		return err;
	if (WARN_ON_ONCE(!range))
		return -EIO;
	pages->sequence = range->notifier_seq;
	pages->pfns = range->hmm_pfns;
	pages->range = range;
	return 0;
}

static __nocfi int call_mm(struct h2d_request *req, unsigned long start, unsigned long npages,
			   bool readonly, struct h2d_pages *pages)
{
	get_pages_mm_fn function = driver.function;
	struct hmm_range *range = NULL;
	int err;

	err = function(&req->notifier, current->mm, NULL, start, npages, &range, readonly, true,
		       NULL);
	return take_result(err, range, pages);
}

static __nocfi int call_pages(struct h2d_request *req, unsigned long start,
			      unsigned long npages, bool readonly, struct h2d_pages *pages)
{
	get_pages_pages_fn function = driver.function;
	struct hmm_range *range = NULL;
	int err;

	err = function(&req->notifier, start, npages, readonly, NULL, NULL, &range);
	return take_result(err, range, pages);
}

static __nocfi int call_range(struct h2d_request *req, unsigned long start,
			      unsigned long npages, bool readonly, struct h2d_pages *pages)
{
	get_pages_range_fn function = driver.function;
	struct driver_range *range;
	int err;

	range = kzalloc(sizeof(*range), GFP_KERNEL);
	if (!range)
		return -ENOMEM;
	err = function(&req->notifier, start, npages, readonly, NULL, range);
	/* On failure the driver has freed the pfns; not every version clears the pointer. */
	if (err)
		kfree(range);
	else
		err = take_result(0, &range->hmm_range, pages);
	return err;
}

int h2d_shipped_get_pages(struct h2d_request *req, unsigned long start, unsigned long npages,
			  bool readonly, struct h2d_pages *pages)
{
	switch (driver.signature) {
	case H2D_HMM_SIGNATURE_MM:
		return call_mm(req, start, npages, readonly, pages);
	case H2D_HMM_SIGNATURE_PAGES:
		return call_pages(req, start, npages, readonly, pages);
	case H2D_HMM_SIGNATURE_RANGE:
		return call_range(req, start, npages, readonly, pages);
	default:
		return -ENODEV;
	}
}

/* A held reference on the driver's module, or NULL: not there, on its way out, or built in. */
static struct module *hold_driver(void)
{
	struct kobject *kobj = kset_find_obj(THIS_MODULE->mkobj.kobj.kset, DRIVER_NAME);
	struct module *module;

	if (!kobj)
		return NULL;
	/* The kobject's reference keeps struct module in place until it is put. */
	module = container_of(kobj, struct module_kobject, kobj)->mod;
	if (module && (module->state != MODULE_STATE_LIVE || !try_module_get(module)))
		module = NULL;
	kobject_put(kobj);
	return module;
}

/*
 * Where a function starts with ENDBR64, a kprobe is placed behind it. Step back if the
 * instruction is there: calls have to land on it under IBT, and anywhere else it does nothing.
 */
static unsigned long function_entry(unsigned long address)
{
	static const u8 endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};
	u8 code[4];

	if (copy_from_kernel_nofault(code, (void *)(address - 4), sizeof(code)))
		return address;
	return memcmp(code, endbr64, sizeof(code)) ? address : address - 4;
}

static int find_function(struct module *module, void **function)
{
	struct kprobe probe = {.symbol_name = DRIVER_NAME ":" DRIVER_FUNCTION};
	unsigned long address;
	int err;

	err = register_kprobe(&probe);
	if (err)
		return err;
	address = (unsigned long)probe.addr;
	unregister_kprobe(&probe);

	if (!within_module(address, module))
		return -ENXIO;
	*function = (void *)function_entry(address);
	return 0;
}

void h2d_shipped_init(int signature)
{
	struct module *module = hold_driver();

	if (!module)
		return;
	driver.present = true;

	driver.error = find_function(module, &driver.function);
	if (driver.error) {
		driver.state = H2D_HMM_DRIVER_NO_SYMBOL;
		module_put(module);
		return;
	}
	if (signature == H2D_HMM_SIGNATURE_NONE) {
		driver.state = H2D_HMM_DRIVER_NO_SIGNATURE;
		module_put(module);
		return;
	}
	driver.module = module;
	driver.signature = signature;
	driver.state = H2D_HMM_DRIVER_READY;
}

void h2d_shipped_exit(void)
{
	if (driver.module)
		module_put(driver.module);
}

bool h2d_shipped_ready(void)
{
	return driver.state == H2D_HMM_DRIVER_READY;
}

void h2d_shipped_describe(struct h2d_hmm_query *query)
{
	query->driver_state = driver.state;
	query->signature = driver.signature;
	query->amdgpu_present = driver.present;
	query->driver_error = driver.error;
}
