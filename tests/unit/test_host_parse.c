/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_host */
/* Texts of proc that are odd, hostile or cut short; what samples say; the table of switches;
 * what redaction leaves. */
#include "host/doctor.h"
#include "host/redact.h"
#include "host/switches.h"
#include "scratch.h"
#include "test.h"

static struct h2d_vma vmas[8];

/* How many mappings a text has, the first eight in `vmas`; -1: no smaps. */
static int parse(const char *text)
{
	static struct h2d_smaps_reader r;
	FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
	int n = 0, got;

	memset(&r, 0, sizeof(r));
	r.in = in;
	while ((got = h2d_smaps_next(&r, &vmas[n < 7 ? n : 7])) > 0)
		n++;
	fclose(in);
	return got < 0 ? -1 : n;
}

static void smaps(void)
{
	static const char text[] =
		"7f00-8000 rw-p 00001000 fe:1a 4711       /m/a b.safetensors (deleted)\n"
		"Rss:                  12 kB\n"
		"Private_Dirty:        99 kB\n"
		"Anonymous:             8 kB\n"
		"AnonHugePages:         2 kB\n"
		"FilePmdMapped:         2 kB\n"
		"Swap:                  4 kB\n"
		"SwapPss:               1 kB\n"
		"VmFlags: rd wr rr hg xx \n"
		"8000-9000 r--s 00000000 00:05 12       /a\\012b\n"
		"Rss: 18446744073709551615 kB\n"
		"9000-a000 ---p 00000000 00:00 0 \n";
	char *of_long;
	size_t n;

	CHECK_EQ(parse(text), 3);
	CHECK_EQ(vmas[0].begin, 0x7f00);
	CHECK_EQ(vmas[0].offset_bytes, 0x1000);
	CHECK_EQ(vmas[0].device_major, 0xfe);
	CHECK_EQ(vmas[0].device_minor, 0x1a);
	CHECK_EQ(vmas[0].inode, 4711);
	CHECK_STR(vmas[0].path, "/m/a b.safetensors");
	CHECK(vmas[0].deleted);
	CHECK_EQ(vmas[0].present_bytes, 12 << 10);
	CHECK_EQ(vmas[0].anonymous_bytes, 8 << 10);
	CHECK_EQ(vmas[0].huge_bytes, 4 << 10);
	CHECK_EQ(vmas[0].swap_bytes, 4 << 10);
	CHECK_EQ(vmas[0].advice, H2D_ADVICE_RANDOM | H2D_ADVICE_HUGE);
	CHECK_STR(vmas[1].path, "/a\nb");
	CHECK(!vmas[1].deleted);
	CHECK_EQ(vmas[1].present_bytes, 0); /* no such number of bytes */
	CHECK_STR(vmas[2].path, "");

	CHECK_EQ(parse(""), 0);
	CHECK_EQ(parse("nonsense\n"), -1);
	CHECK_EQ(parse("Rss: 4 kB\n"), -1);
	CHECK_EQ(parse("9000-8000 rw-p 0 00:00 0\n"), -1);
	CHECK_EQ(parse("1000-2000 rw-p 0 00:00\n"), -1);
	CHECK_EQ(parse("1000-2000 r--p 0 00:00 0\nb000-c000 rw-p 0 00:00 0"), 2);
	/* Cut in the middle, as when the process ends. */
	for (size_t cut = 0; cut < sizeof(text) - 1; cut++) {
		char part[sizeof(text)];

		memcpy(part, text, cut);
		part[cut] = 0;
		if (cut)
			CHECK(parse(part) <= 3);
	}
	/* A path longer than the kernel allows, and a line longer than ours. */
	n = 100000;
	of_long = malloc(n + 200);
	REQUIRE(of_long);
	strcpy(of_long, "1000-2000 r--p 0 00:01 5 /");
	memset(of_long + strlen(of_long), 'x', n);
	strcpy(of_long + 26 + n, "\nRss: 4 kB\n2000-3000 r--p 0 00:00 0\n");
	CHECK_EQ(parse(of_long), 2);
	CHECK_EQ(vmas[0].present_bytes, 4096);
	free(of_long);
}

static struct h2d_known_u64 known(uint64_t value)
{
	return (struct h2d_known_u64){true, value};
}

static struct h2d_sample sample(double at_s, uint64_t anon_mib, uint64_t file_mib,
				uint64_t cpu_ms)
{
	return (struct h2d_sample){
		.time_ns = (uint64_t)(at_s * 1e9) + 5,
		.state = 'R',
		.kernel_ns = cpu_ms * 1000000,
		.rss_anon_bytes = known(anon_mib << 20),
		.rss_file_bytes = known(file_mib << 20),
	};
}

static void trends(void)
{
	struct h2d_sample s[3];
	struct h2d_trend t;

	h2d_trend_of(NULL, 0, &t);
	CHECK_EQ(t.progress, H2D_PROGRESS_UNKNOWN);
	s[0] = sample(0, 100, 1000, 0);
	h2d_trend_of(s, 1, &t);
	CHECK_EQ(t.progress, H2D_PROGRESS_UNKNOWN);

	/* Two MiB a second turn from file pages into anonymous ones: the stall. */
	s[1] = sample(1, 102, 998, 1000);
	s[2] = sample(2, 104, 996, 2000);
	h2d_trend_of(s, 3, &t);
	CHECK_EQ(t.progress, H2D_PROGRESS_SLOW);
	CHECK_EQ(t.bytes_per_s, 2 << 20);
	CHECK_EQ(t.anon_delta_bytes, 4 << 20);
	CHECK_EQ(t.file_delta_bytes, -(4 << 20));
	CHECK(t.kernel_pct > 99 && t.kernel_pct < 101);

	s[2] = sample(2, 100, 3000, 2000);
	h2d_trend_of(s, 3, &t);
	CHECK_EQ(t.progress, H2D_PROGRESS_MOVING);
	s[1] = s[2] = sample(2, 100, 1000, 1900);
	h2d_trend_of(s, 3, &t);
	CHECK_EQ(t.progress, H2D_PROGRESS_BUSY);
	s[1] = s[2] = sample(2, 100, 1000, 0);
	h2d_trend_of(s, 3, &t);
	CHECK_EQ(t.progress, H2D_PROGRESS_STILL);
	s[2].gone = true;
	h2d_trend_of(s, 3, &t);
	CHECK_EQ(t.progress, H2D_PROGRESS_EXITED);
	CHECK_EQ(t.elapsed_ns, 2000000000);
	/* A damaged capture may count backwards and stand still in time. */
	s[2] = sample(1, 0, 0, 0);
	s[0].major_fault_count = 10;
	s[0].kernel_ns = UINT64_MAX;
	h2d_trend_of(s, 3, &t);
	CHECK_EQ(t.major_faults_per_s, 0);
	s[2].time_ns = 0;
	h2d_trend_of(s, 3, &t);
	CHECK_EQ(t.elapsed_ns, 0);
}

static void switches(void)
{
	char *vllm[] = {(char[]){"/usr/bin/python3"}, (char[]){"-m"},
			(char[]){"vllm.entrypoints.openai"}, (char[]){"/models/ComfyUI/x"}};
	char *engine[] = {(char[]){"VLLM::EngineCore"}};
	char *other[] = {(char[]){"python3"}, (char[]){"vllmish.py"}};
	struct h2d_switches *s;
	struct h2d_switch w;
	const char *part;
	size_t n;

	REQUIRE(!h2d_switches_open(NULL, &scratch_log, &s));
	CHECK_STR(h2d_switches_program(s, vllm, 4), "vLLM");
	CHECK_STR(h2d_switches_program(s, engine, 1), "vLLM");
	CHECK(!h2d_switches_program(s, other, 2));
	CHECK(!h2d_switches_program(s, NULL, 0));
	CHECK(h2d_switches_of_program(s, "vLLM", "copied", &w));
	CHECK(strstr(w.action, "--safetensors-load-strategy eager"));
	CHECK(!h2d_switches_of_program(s, "vLLM", "no such finding", &w));
	CHECK(!h2d_switches_of_program(s, NULL, "copied", &w));
	CHECK(h2d_switches_general(s, "h2d_run", "copied", &w));
	CHECK(!h2d_switches_general(s, "upgrade", "copied", &w));
	part = h2d_switches_match(s, "/home/me/ComfyUI/main.py", &n);
	CHECK(part && n == 7 && !strncmp(part, "ComfyUI", 7));
	CHECK(h2d_switches_match(s, "--disable-mmap", &n) && n == 14);
	CHECK(!h2d_switches_match(s, "--token=secret", &n));
	h2d_switches_close(s);
	h2d_switches_close(NULL);
}

static void bad_tables(void)
{
	static const char *const texts[] = {
		"",
		"[]",
		"{}",
		"{\"general\": [], \"programs\": [{}]}",
		"{\"general\": [{\"id\": \"x\"}], \"programs\": []}",
		"{\"general\": [{\"id\": 1, \"action\": 2}], \"programs\": []}",
		("{\"general\": [], \"programs\": [{\"name\": \"n\", \"words\": [], "
		 "\"switches\": [{\"switch\": \"s\", \"gain\": \"g\", \"for\": []}]}]}"),
	};
	struct h2d_switches *s;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const char *path = scratch_path("table.json");
		FILE *f = fopen(path, "w");

		fputs(texts[i], f);
		fclose(f);
		CHECK_EQ(h2d_switches_open(path, &scratch_log, &s), H2D_E_FORMAT);
		CHECK(!s);
	}
	CHECK_EQ(h2d_switches_open("/nonexistent.json", &scratch_log, &s), H2D_E_NOT_FOUND);
}

/* ---- redaction ---- */

static void note(const char *path, const char *data, size_t bytes)
{
	h2d_hostfs_note(H2D_HOSTFS_TEXT, path, data, bytes, 0);
}

#define NOTE(path, text) note(path, text, sizeof(text) - 1)

static void nothing_private_stays(void)
{
	struct h2d_record r = {0};
	struct h2d_switches *s;
	struct h2d_recorded *item;

	REQUIRE(!h2d_switches_open(NULL, &scratch_log, &s));
	h2d_record_start(&r);
	NOTE("/proc/sys/kernel/hostname", "SECRET-host\n");
	NOTE("/proc/cmdline", "root=SECRET\n");
	NOTE("/proc/7/cmdline", "/home/SECRET/ComfyUI/main.py\0--disable-mmap\0--key=SECRET\0");
	NOTE("/proc/7/stat", "7 (SECRET) x) R 1\n");
	NOTE("/h2d/sample/0/proc/7/stat", "7 (SECRET) R 1\n");
	NOTE("/proc/8/stat", "8 (python3.12) R 1\n");
	NOTE("/proc/7/status", "Name:\tSECRET\nGroups:\tSECRET\nRssAnon:\t4 kB\n");
	NOTE("/proc/7/smaps", "a000-b000 rw-p 0 00:01 5   /home/SECRET/model.gguf (deleted)\n"
			      "Rss: 4 kB\n7000-8000 rw-p 0 00:00 0\n");
	NOTE("/proc/self/cgroup", "4:memory:/user-SECRET/SECRET\n0::/\n");
	NOTE("/proc/7/cgroup", "0::/SECRET/SECRET.scope\n");
	NOTE("/sys/fs/cgroup/memory/user-SECRET/SECRET/memory.limit_in_bytes", "1\n");
	NOTE("/sys/fs/cgroup/SECRET/memory.max", "2\n");
	NOTE("/sys/fs/cgroup/memory.max", "3\n");
	NOTE("/proc/driver/nvidia/gpus/0000:01:00.0/information",
	     "Model: \t NVIDIA GB10\nGPU UUID: SECRET\n");
	NOTE("/proc/9/stat", "9 (python-SECRET-ac) R 1\n");
	NOTE("/proc/9/task/10/stat", "10 (VLLM::SECRET) D 1\n");
	NOTE("/proc/9/smaps", "a000-b000 rw-p 0 00:00 0   [anon:SECRET/SECRET]\n"
			      "b000-c000 rw-p 0 00:00 0   [heap]\n"
			      "c000-d000 rw-s 0 00:01 5   /memfd:SECRET (deleted)\n"
			      "d000-e000 rw-s 0 00:01 5   [anon_shmem:SECRET]\n");
	NOTE("/proc/cpuinfo", "processor\t: 0\nSerial\t\t: SECRET\nModel\t\t: A board\n");
	NOTE("/sys/class/kfd/kfd/topology/nodes/1/properties",
	     "cpu_cores_count 16\nsimd_count 80\nunique_id SECRET\nlocation_id 50176\n"
	     "gfx_target_version 110501\n");
	NOTE("/sys/module/amdgpu/parameters/firmware_dir", "SECRET\n");
	NOTE("/sys/module/amdgpu/parameters/noretry", "-1\n");
	NOTE("/sys/module/amdgpu/parameters/sched_jobs", "32 SECRET\n");
	h2d_record_stop();
	NOTE("/not/observed", "any more");
	CHECK_EQ(h2d_redact(&r, s), 0);
	CHECK_EQ(r.count, 22);
	for (size_t i = 0; i < r.count; i++) {
		item = &r.items[i];
		CHECK(!strstr(item->path, "SECRET"));
		CHECK(!memmem(item->data, item->bytes, "SECRET", 6));
	}
	item = h2d_record_find(&r, H2D_HOSTFS_TEXT, "/proc/7/cmdline");
	CHECK(item && item->bytes == 8 + 15 + 9 &&
	      !memcmp(item->data, "ComfyUI\0--disable-mmap\0redacted\0", item->bytes));
	item = h2d_record_find(&r, H2D_HOSTFS_TEXT, "/proc/7/stat");
	CHECK(item && !strcmp(item->data, "7 (process) R 1\n"));
	item = h2d_record_find(&r, H2D_HOSTFS_TEXT, "/proc/8/stat");
	CHECK(item && !strcmp(item->data, "8 (python3.12) R 1\n"));
	item = h2d_record_find(&r, H2D_HOSTFS_TEXT, "/proc/7/status");
	CHECK(item && !strcmp(item->data, "RssAnon:\t4 kB\n"));
	item = h2d_record_find(&r, H2D_HOSTFS_TEXT, "/proc/7/smaps");
	CHECK(item &&
	      !strcmp(item->data, "a000-b000 rw-p 0 00:01 5   /redacted/model.gguf (deleted)\n"
				  "Rss: 4 kB\n7000-8000 rw-p 0 00:00 0\n"));
	item = h2d_record_find(&r, H2D_HOSTFS_TEXT, "/proc/self/cgroup");
	CHECK(item && !strcmp(item->data, "4:memory:/g/g\n0::/\n"));
	CHECK(h2d_record_find(&r, H2D_HOSTFS_TEXT,
			      "/sys/fs/cgroup/memory/g/g/memory.limit_in_bytes"));
	/* Two groups of one depth stay two. */
	CHECK(h2d_record_find(&r, H2D_HOSTFS_TEXT, "/sys/fs/cgroup/g1/memory.max"));
	item = h2d_record_find(&r, H2D_HOSTFS_TEXT, "/proc/7/cgroup");
	CHECK(item && !strcmp(item->data, "0::/g1/g1\n"));
	CHECK(h2d_record_find(&r, H2D_HOSTFS_TEXT, "/sys/fs/cgroup/memory.max"));
	item = h2d_record_find(&r, H2D_HOSTFS_TEXT,
			       "/proc/driver/nvidia/gpus/0000:01:00.0/information");
	CHECK(item && !strcmp(item->data, "Model: \t NVIDIA GB10\n"));
	item = h2d_record_find(&r, H2D_HOSTFS_TEXT, "/proc/9/stat");
	CHECK(item && !strcmp(item->data, "9 (process) R 1\n"));
	item = h2d_record_find(&r, H2D_HOSTFS_TEXT, "/proc/9/task/10/stat");
	CHECK(item && !strcmp(item->data, "10 (VLLM) D 1\n"));
	item = h2d_record_find(&r, H2D_HOSTFS_TEXT, "/proc/9/smaps");
	CHECK(item && !strcmp(item->data, "a000-b000 rw-p 0 00:00 0   [anon:redacted]\n"
					  "b000-c000 rw-p 0 00:00 0   [heap]\n"
					  "c000-d000 rw-s 0 00:01 5   /memfd:redacted\n"
					  "d000-e000 rw-s 0 00:01 5   [anon:redacted]\n"));
	item = h2d_record_find(&r, H2D_HOSTFS_TEXT, "/proc/cpuinfo");
	CHECK(item && !strcmp(item->data, "processor\t: 0\nModel\t\t: A board\n"));
	item = h2d_record_find(&r, H2D_HOSTFS_TEXT,
			       "/sys/class/kfd/kfd/topology/nodes/1/properties");
	CHECK(item && !strcmp(item->data, "cpu_cores_count 16\nsimd_count 80\n"
					  "gfx_target_version 110501\n"));
	item = h2d_record_find(&r, H2D_HOSTFS_TEXT, "/sys/module/amdgpu/parameters/noretry");
	CHECK(item && !strcmp(item->data, "-1\n"));
	h2d_record_free(&r);
	h2d_switches_close(s);
}

static void too_much_to_record(void)
{
	static char data[1 << 20];
	struct h2d_record r = {0};
	char path[32];

	h2d_record_start(&r);
	for (int i = 0; i < 40; i++) {
		snprintf(path, sizeof(path), "/f%d", i);
		note(path, data, sizeof(data));
	}
	h2d_record_stop();
	CHECK(r.failed);
	CHECK(r.bytes <= H2D_RECORD_BYTES_MAX);
	h2d_record_free(&r);
}

int main(void)
{
	RUN(smaps);
	RUN(trends);
	RUN(switches);
	RUN(bad_tables);
	RUN(nothing_private_stays);
	RUN(too_much_to_record);
	return TEST_DONE();
}
