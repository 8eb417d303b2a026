/* SPDX-License-Identifier: Apache-2.0 */
/* Which cells are run on one kernel, the job for its guest, and what the cells printed. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_TIMEOUT_MS 1000u
#define SPAN_BYTES	   (2u << 20)
/* What a cell costs beside its windows, and what copying one span costs, under emulation. */
#define CELL_MS	   8000u
#define SPAN_MS	   100u
#define BOOT_MS	   120000u
#define COMMAND_MS 600000u

static const struct {
	unsigned bit;
	const char *name, *directory;
} filesystems[] = {
	{H2D_LAB_FS_EXT4, "ext4", "/mnt/ext4"},
	{H2D_LAB_FS_XFS, "xfs", "/mnt/xfs"},
	{H2D_LAB_FS_TMPFS, "tmpfs", "/mnt/tmpfs"},
	{H2D_LAB_FS_OVERLAY, "overlay", "/mnt/overlay"},
};

static const struct {
	unsigned bit;
	const char *name;
} policies[] = {
	{H2D_LAB_POLICY_REFRESH, "refresh"},
	{H2D_LAB_POLICY_STALE, "stale"},
	{H2D_LAB_POLICY_NO_RETRY, "no_retry"},
};

/* A read-only mapping asks for the same under both permission rules. */
static const struct {
	unsigned permission, state;
	const char *permission_name, *state_name;
} shapes[] = {
	{H2D_LAB_PERMISSION_VMA, H2D_LAB_STATE_RO_PRESENT, "vma", "ro-present"},
	{H2D_LAB_PERMISSION_VMA, H2D_LAB_STATE_RW_ABSENT, "vma", "rw-absent"},
	{H2D_LAB_PERMISSION_VMA, H2D_LAB_STATE_RW_PRESENT, "vma", "rw-present"},
	{H2D_LAB_PERMISSION_ACCESS, H2D_LAB_STATE_RW_ABSENT, "access", "rw-absent"},
	{H2D_LAB_PERMISSION_ACCESS, H2D_LAB_STATE_RW_PRESENT, "access", "rw-present"},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static uint32_t stale_timeout_ms(const struct lab *lab)
{
	return lab->options.timeout_ms ? lab->options.timeout_ms : DEFAULT_TIMEOUT_MS;
}

/* Milliseconds one cell may take: three times what it is expected to. */
static uint64_t cell_timeout_ms(const struct lab *lab, const struct lab_cell *cell)
{
	uint64_t spans = lab->options.size_bytes / SPAN_BYTES + 2, window = 0;

	if (strcmp(cell->driver, "shipped") == 0)
		window = DEFAULT_TIMEOUT_MS;
	else if (strcmp(cell->policy, "stale") == 0)
		window = stale_timeout_ms(lab);
	return 3 * (CELL_MS + spans * (window + SPAN_MS));
}

static bool cell_wanted(const struct h2d_lab_options *o, size_t filesystem, size_t shape)
{
	return (o->filesystems & filesystems[filesystem].bit) &&
	       (o->permissions & shapes[shape].permission) && (o->states & shapes[shape].state);
}

/* Fills the cell list: by filesystem, then policy, zeros beside their controls. */
static int list_cells(struct lab *lab, struct lab_kernel_result *result)
{
	const struct h2d_lab_options *o = &lab->options;
	bool shipped = strcmp(result->driver, "shipped") == 0;
	size_t most = COUNT(filesystems) * COUNT(policies) * COUNT(shapes);

	result->cells = calloc(most, sizeof(*result->cells));
	if (!result->cells)
		return h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
	for (size_t f = 0; f < COUNT(filesystems); f++) {
		for (size_t p = 0; p < (shipped ? 1 : COUNT(policies)); p++) {
			if (!shipped && !(o->policies & policies[p].bit))
				continue;
			for (size_t s = 0; s < COUNT(shapes); s++) {
				if (!cell_wanted(o, f, s))
					continue;
				result->cells[result->cell_count++] = (struct lab_cell){
					.filesystem = filesystems[f].name,
					.driver = result->driver,
					.policy = shipped ? "none" : policies[p].name,
					.permission = shapes[s].permission_name,
					.state = shapes[s].state_name,
				};
			}
		}
	}
	return 0;
}

static void add_mounts(const struct lab *lab, struct lab_job *job)
{
	unsigned wanted = lab->options.filesystems;
	char options[64];

	/* The overlay lies on ext4. */
	if (wanted & (H2D_LAB_FS_EXT4 | H2D_LAB_FS_OVERLAY))
		lab_job_add(job, LAB_JOB_MOUNT, false, "serial:h2d-ext4", "/mnt/ext4", "ext4",
			    "", NULL);
	if (wanted & H2D_LAB_FS_XFS)
		lab_job_add(job, LAB_JOB_MOUNT, false, "serial:h2d-xfs", "/mnt/xfs", "xfs", "",
			    NULL);
	snprintf(options, sizeof(options), "mode=1777,size=%lluk",
		 (unsigned long long)(lab->options.size_bytes * 3 / 1024 + 16384));
	if (wanted & H2D_LAB_FS_TMPFS)
		lab_job_add(job, LAB_JOB_MOUNT, false, "tmpfs", "/mnt/tmpfs", "tmpfs", options,
			    NULL);
	if (wanted & H2D_LAB_FS_OVERLAY) {
		lab_job_add(job, LAB_JOB_MKDIR, false, "/mnt/ext4/lower", NULL);
		lab_job_add(job, LAB_JOB_MKDIR, false, "/mnt/ext4/upper", NULL);
		lab_job_add(job, LAB_JOB_MKDIR, false, "/mnt/ext4/work", NULL);
		lab_job_add(job, LAB_JOB_MOUNT, false, "overlay", "/mnt/overlay", "overlay",
			    "lowerdir=/mnt/ext4/lower,upperdir=/mnt/ext4/upper,"
			    "workdir=/mnt/ext4/work",
			    NULL);
	}
}

static const char *directory_of(const char *filesystem)
{
	for (size_t f = 0; f < COUNT(filesystems); f++)
		if (strcmp(filesystems[f].name, filesystem) == 0)
			return filesystems[f].directory;
	return "/tmp";
}

static void add_cell(const struct lab *lab, struct lab_cell *cell, struct lab_job *job)
{
	char name[128], size[32], timeout[32];
	const char *const argv[] = {
		"/bin/lab-cell",
		"--directory",
		directory_of(cell->filesystem),
		"--size",
		size,
		"--driver",
		cell->driver,
		"--policy",
		cell->policy,
		"--permission",
		cell->permission,
		"--state",
		cell->state,
		"--timeout-ms",
		timeout,
		NULL,
	};

	snprintf(size, sizeof(size), "%llu", (unsigned long long)lab->options.size_bytes);
	snprintf(timeout, sizeof(timeout), "%u", stale_timeout_ms(lab));
	snprintf(name, sizeof(name), "%s/%s/%s/%s", cell->filesystem, cell->policy,
		 cell->permission, cell->state);
	cell->step = lab_job_run(job, false, name, cell_timeout_ms(lab, cell), argv);
}

int lab_matrix_plan(struct lab *lab, struct lab_kernel_result *result,
		    const char *const *module_names, size_t module_count, struct lab_job *job)
{
	const char *const dynamic[] = {"/bin/lab-dynamic", NULL};
	char parameters[64];
	int err = list_cells(lab, result);

	if (err)
		return err;
	lab_job_begin(job);
	snprintf(parameters, sizeof(parameters), "signature=%d count_calls=%d",
		 result->signature, lab->options.count_calls);
	for (size_t i = 0; i < module_count; i++)
		lab_job_add(job, LAB_JOB_LOAD, true, module_names[i],
			    i + 1 == module_count ? parameters : "", NULL);
	add_mounts(lab, job);
	result->dynamic_step = lab_job_run(job, false, "dynamic", 30000, dynamic);
	for (size_t i = 0; i < result->cell_count; i++)
		add_cell(lab, &result->cells[i], job);
	err = lab_reproduce_plan(lab, result, job);
	if (err)
		return err;
	result->first_command = job->step_count;
	for (size_t i = 0; i < lab->options.command_count; i++)
		lab_job_run(job, false, "command", COMMAND_MS, lab->options.commands[i]);
	return job->failed ? h2d_fail(&lab->log, H2D_E_NOMEM, "the guest's job cannot be made")
			   : 0;
}

uint64_t lab_matrix_disk_bytes(const struct lab *lab)
{
	uint64_t bytes = lab->options.size_bytes * 4 + (128u << 20);

	/* mkfs.xfs makes nothing below 300 MB. The file is sparse. */
	return bytes < (384u << 20) ? 384u << 20 : (bytes + 4095) & ~(uint64_t)4095;
}

uint64_t lab_matrix_timeout_ms(const struct lab *lab, const struct lab_kernel_result *result)
{
	uint64_t total = BOOT_MS;

	if (lab->options.guest_timeout_s)
		return (uint64_t)lab->options.guest_timeout_s * 1000;
	for (size_t i = 0; i < result->cell_count; i++)
		total += cell_timeout_ms(lab, &result->cells[i]);
	return total + result->reproduction_ms + lab->options.command_count * COMMAND_MS;
}

static char *first_line(const char *text)
{
	return text ? strndup(text, strcspn(text, "\n")) : NULL;
}

/* What a step's end says when it was not a success; malloc'ed. */
static char *describe_end(const struct lab_step *step)
{
	char *line = first_line(step->err), *text;

	if (!step->begun)
		text = strdup("not reached");
	else if (!step->ended)
		text = strdup("the guest ended or hung in it");
	else if (step->end.flags & LAB_END_SKIPPED)
		text = strdup("not run: an earlier step failed");
	else if (step->end.flags & LAB_END_TIMED_OUT)
		text = strdup("killed at its timeout");
	else if (step->end.flags & LAB_END_SIGNALLED)
		text = lab_format("ended by signal %d", -step->end.status);
	else
		text = lab_format("status %d%s%s", step->end.status, line ? ": " : "",
				  line ? line : "");
	free(line);
	return text;
}

int lab_matrix_collect(struct lab *lab, struct lab_kernel_result *result)
{
	for (size_t i = 0; i < result->cell_count; i++) {
		struct lab_cell *cell = &result->cells[i];
		const struct lab_step *step = &result->steps.steps[cell->step];
		json_error_t error;

		if (step->ended && !step->end.flags && step->end.status == 0 && step->out)
			cell->report = json_loadb(step->out, step->out_bytes,
						  JSON_REJECT_DUPLICATES, &error);
		if (cell->report && json_is_object(cell->report))
			continue;
		json_decref(cell->report);
		cell->report = NULL;
		cell->problem = step->ended && !step->end.flags && step->end.status == 0
					? strdup("it printed no report")
					: describe_end(step);
		if (!cell->problem)
			return h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
	}
	return 0;
}
