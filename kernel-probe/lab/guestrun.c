/* SPDX-License-Identifier: Apache-2.0 */
/* Takes one kernel through the laboratory: unpack, build, guest, results. */
#include "guestrun.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "abi/kernel_image.h"

#define RESULT_DISK_BYTES (512ull << 20) /* sparse */
#define MEMORY_MIB	  1536u

/* Modules of the kernel that guests need for themselves. */
static const struct {
	const char *name;
	bool required;
	unsigned filesystem; /* 0: always */
} base_modules[] = {
	{"virtio_pci", true, 0},
	{"virtio_blk", true, 0},
	{"ext4", false, H2D_LAB_FS_EXT4 | H2D_LAB_FS_OVERLAY},
	{"xfs", false, H2D_LAB_FS_XFS},
	{"overlay", false, H2D_LAB_FS_OVERLAY},
};

/* What belongs to one guest, below its own directory. */
struct run {
	struct lab *lab;
	struct lab_kernel_result *result;
	struct lab_root root;
	struct lab_modules modules;
	char *directory, *module;
	char *initramfs, *result_disk, *ext4_disk, *xfs_disk;
	struct lab_job job;
};

static int no_memory(struct lab *lab)
{
	return h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
}

/* A kernel that cannot be had or tested here is an outcome, not an error. */
static int not_verified(struct run *run, const char *why)
{
	run->result->verdict = H2D_LAB_NOT_VERIFIED;
	run->result->retry_policy = "unknown";
	if (lab_add_line(&run->result->reasons, "%s", why ? why : "no reason given"))
		return no_memory(run->lab);
	return 1;
}

static int unpack(struct run *run)
{
	struct lab *lab = run->lab;
	char *directory = lab_format("%s/root", run->directory);
	int err;

	if (!directory)
		return no_memory(lab);
	if (lab->options.image && !run->result->kernel.image.path)
		err = lab_root_given(lab, directory, &run->root);
	else
		err = lab_root_unpack(lab, &run->result->kernel, directory, &run->root);
	free(directory);
	if (err)
		return err;
	run->result->release = strdup(run->root.release);
	if (!run->result->release)
		return no_memory(lab);
	return lab_modules_index(lab, &run->root);
}

/* The prototype of the shipped function, from the module's own BTF. */
static int find_signature(struct run *run, const char *amdgpu)
{
	struct lab_kernel_result *result = run->result;
	struct h2d_signature signature;
	int err = h2d_signature_from_files(amdgpu, run->root.image, &run->lab->log, &signature);

	if (err == H2D_E_NOT_FOUND || err == H2D_E_UNSUPPORTED)
		return not_verified(run, "the prototype of " H2D_SIGNATURE_FUNCTION
					 " cannot be told from the BTF of its amdgpu module");
	if (err)
		return err;
	result->signature = signature.value;
	result->prototype = strdup(signature.prototype);
	if (!result->prototype)
		return no_memory(run->lab);
	if (signature.value != H2D_HMM_SIGNATURE_NONE)
		return 0;
	return not_verified(run, signature.reason);
}

/* Which modules, in which order; decides about the driver. */
static int choose_modules(struct run *run)
{
	struct lab_kernel_result *result = run->result;
	const struct h2d_lab_options *o = &run->lab->options;
	struct lab_modules amdgpu = {0};
	int err = 0;

	for (size_t i = 0; !err && i < sizeof(base_modules) / sizeof(base_modules[0]); i++)
		if (!base_modules[i].filesystem ||
		    (base_modules[i].filesystem & o->filesystems))
			err = lab_modules_add(run->lab, &run->root, base_modules[i].name,
					      base_modules[i].required, &run->modules, NULL);
	if (!err)
		err = lab_modules_add(run->lab, &run->root, "amdgpu", false, &amdgpu,
				      &result->has_amdgpu);
	if (err)
		goto out;
	result->signature = H2D_HMM_SIGNATURE_NONE;
	result->driver = o->driver == H2D_LAB_DRIVER_EMULATED ? "emulated" : "shipped";
	if (strcmp(result->driver, "emulated") == 0)
		goto out;
	if (!result->has_amdgpu || !amdgpu.count) {
		err = not_verified(run, "this kernel ships no amdgpu module; --driver emulated "
					"would run h2d's own, which says nothing of it");
		goto out;
	}
	err = find_signature(run, amdgpu.paths[amdgpu.count - 1]);
	if (!err)
		err = lab_rule_read(run->lab, amdgpu.paths[amdgpu.count - 1], result);
	if (!err)
		err = lab_modules_add(run->lab, &run->root, "amdgpu", true, &run->modules,
				      NULL);
out:
	lab_modules_free(&amdgpu);
	return err;
}

/* "/modules/07-amdgpu.ko": the order is in the job; the number keeps equal names apart. */
static char *guest_name(const char *path, size_t index)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path, *dot = strstr(base, ".ko");

	return lab_format("/modules/%02zu-%.*s.ko", index,
			  dot ? (int)(dot - base) : (int)strlen(base), base);
}

static int add_modules(struct run *run, struct lab_initramfs *fs, char **names)
{
	struct lab *lab = run->lab;
	int err = 0;

	for (size_t i = 0; !err && i < run->modules.count; i++) {
		const char *path = run->modules.paths[i];
		void *data;
		size_t size;

		err = lab_module_read(&lab->log, path, &data, &size);
		if (err)
			break;
		names[i] = guest_name(path, i);
		err = names[i] ? lab_initramfs_add(fs, names[i] + 1, data, size, 0644)
			       : no_memory(lab);
		free(data);
	}
	return err;
}

static int add_programs(struct run *run, struct lab_initramfs *fs)
{
	static const struct {
		const char *asset, *name;
	} programs[] = {
		{"lab-init", "init"},
		{"lab-cell", "bin/lab-cell"},
		{"lab-dynamic", "bin/lab-dynamic"},
	};
	const struct h2d_lab_options *o = &run->lab->options;
	int err = 0;

	for (size_t i = 0; !err && i < sizeof(programs) / sizeof(programs[0]); i++) {
		char *path = lab_format("%s/%s", run->lab->assets, programs[i].asset);

		err = path ? lab_initramfs_add_program(fs, programs[i].name, path)
			   : no_memory(run->lab);
		free(path);
	}
	if (!err && o->reproducer) {
		/* /proc/self/exe means another program to the loader that lists its libraries.
		 */
		char *path = realpath(o->reproducer, NULL);

		err = path ? lab_initramfs_add_program(fs, "bin/h2d", path)
			   : h2d_fail_errno(&run->lab->log, errno, "%s", o->reproducer);
		free(path);
	}
	for (size_t i = 0; !err && i < o->guest_file_count; i++) {
		const char *slash = strrchr(o->guest_files[i], '/');
		char *name = lab_format("bin/%s", slash ? slash + 1 : o->guest_files[i]);

		err = name ? lab_initramfs_add_program(fs, name, o->guest_files[i])
			   : no_memory(run->lab);
		free(name);
	}
	return err;
}

static int make_initramfs(struct run *run)
{
	struct lab *lab = run->lab;
	size_t count = run->modules.count + 1;
	char **names = calloc(count, sizeof(*names));
	struct lab_initramfs *fs = NULL;
	int err, end;

	if (!names)
		return no_memory(lab);
	err = lab_initramfs_open(lab, run->initramfs, &fs);
	if (!err)
		err = add_modules(run, fs, names);
	if (!err) {
		names[count - 1] = guest_name(run->module, count - 1);
		err = names[count - 1] ? lab_initramfs_add_file(fs, names[count - 1] + 1,
								run->module, 0644)
				       : no_memory(lab);
	}
	if (!err)
		err = lab_matrix_plan(lab, run->result, (const char *const *)names, count,
				      &run->job);
	if (!err)
		err = lab_initramfs_add(fs, "job", run->job.data, run->job.size, 0644);
	if (!err)
		err = add_programs(run, fs);
	end = lab_initramfs_close(fs);
	for (size_t i = 0; i < count; i++)
		free(names[i]);
	free(names);
	return err ? err : end;
}

static int make_disks(struct run *run, struct lab_guest *guest)
{
	struct lab *lab = run->lab;
	const unsigned wanted = lab->options.filesystems;
	const struct {
		const char *path, *serial;
		int kind;
		uint64_t bytes;
		bool wanted;
	} disks[] = {
		{run->result_disk, "h2d-result", LAB_DISK_RESULT, RESULT_DISK_BYTES, true},
		{run->ext4_disk, "h2d-ext4", LAB_DISK_EXT4, lab_matrix_disk_bytes(lab),
		 wanted & (H2D_LAB_FS_EXT4 | H2D_LAB_FS_OVERLAY)},
		{run->xfs_disk, "h2d-xfs", LAB_DISK_XFS, lab_matrix_disk_bytes(lab),
		 wanted & H2D_LAB_FS_XFS},
	};
	int err = 0;

	for (size_t i = 0; !err && i < sizeof(disks) / sizeof(disks[0]); i++) {
		if (!disks[i].wanted)
			continue;
		err = lab_image_make(lab, disks[i].path, disks[i].kind, disks[i].bytes);
		guest->disks[guest->disk_count++] = (struct lab_disk){
			.path = disks[i].path,
			.serial = disks[i].serial,
		};
	}
	return err;
}

static int boot(struct run *run)
{
	struct lab *lab = run->lab;
	struct lab_kernel_result *result = run->result;
	struct lab_guest guest = {
		.kernel = run->root.image,
		.initramfs = run->initramfs,
		.work_dir = run->directory,
		.memory_mib = MEMORY_MIB + (unsigned)(lab->options.size_bytes * 8 >> 20),
		.timeout_ms = lab_matrix_timeout_ms(lab, result),
	};
	int err = make_disks(run, &guest);

	if (!err)
		err = lab_accel_choose(lab, run->root.image, &result->accel,
				       &result->accel_reason);
	if (err)
		return err;
	guest.accel = result->accel;
	h2d_log_line(&lab->log, H2D_LOG_INFO, "booting %s under %s, %zu cells", result->release,
		     lab_accel_name(guest.accel), result->cell_count);
	result->ran = true;
	err = lab_guest_boot(lab, &guest, &result->guest);
	if (!err)
		err = lab_steps_read(&lab->log, run->result_disk, &run->job, &result->steps);
	if (!err)
		err = lab_matrix_collect(lab, result);
	return err ? err : lab_judge(lab, result);
}

static int name_files(struct run *run, size_t index)
{
	const char *tmp = run->lab->tmp;

	run->directory = lab_format("%s/%zu", tmp, index);
	run->initramfs = lab_format("%s/%zu/initramfs.cpio", tmp, index);
	run->result_disk = lab_format("%s/%zu/result.img", tmp, index);
	run->ext4_disk = lab_format("%s/%zu/ext4.img", tmp, index);
	run->xfs_disk = lab_format("%s/%zu/xfs.img", tmp, index);
	if (!run->directory || !run->initramfs || !run->result_disk || !run->ext4_disk ||
	    !run->xfs_disk)
		return no_memory(run->lab);
	return 0;
}

int lab_kernel_run(struct lab *lab, size_t index, struct lab_kernel_result *result)
{
	struct run run = {.lab = lab, .result = result};
	char *why = NULL;
	int err = 0;

	if (result->kernel.missing) {
		err = not_verified(&run, result->kernel.missing);
		goto out;
	}
	err = name_files(&run, index);
	if (!err)
		err = unpack(&run);
	if (!err)
		err = choose_modules(&run);
	if (!err)
		err = lab_module_get(lab, result->kernel.image.path ? &result->kernel : NULL,
				     &run.root, &run.module, &why);
	if (err == H2D_E_UNAVAILABLE && why)
		err = not_verified(&run, why);
	if (!err)
		err = make_initramfs(&run);
	if (!err)
		err = boot(&run);
out:
	lab_root_free(&run.root);
	lab_modules_free(&run.modules);
	lab_job_free(&run.job);
	if (run.directory && !lab->options.keep)
		lab_remove_tree(run.directory);
	free(run.directory);
	free(run.module);
	free(run.initramfs);
	free(run.result_disk);
	free(run.ext4_disk);
	free(run.xfs_disk);
	free(why);
	return err == 1 ? 0 : err;
}
