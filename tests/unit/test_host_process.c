/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_host */
/* Mappings of checkpoints as the kernel counts them, on this machine: exact bytes for what a
 * program copies, nothing for what it only reads. */
#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "host/process.h"
#include "host/sample.h"
#include "host/task.h"
#include "scratch.h"
#include "test.h"

enum { FILE_BYTES = 3 << 20 };

static size_t page;

/* A safetensors file without tensors, as far as detection goes. */
static const char *checkpoint(const char *name, bool sync)
{
	static const unsigned char head[] = {8,	  0,   0,   0,	 0,   0,   0,	0,
					     '{', '}', ' ', ' ', ' ', ' ', ' ', ' '};
	const char *path = scratch_file(name, FILE_BYTES);
	int fd = open(path, O_WRONLY);

	if (fd < 0 || pwrite(fd, head, sizeof(head), 0) != sizeof(head) || (sync && fsync(fd)))
		exit(1);
	close(fd);
	return path;
}

static unsigned char *map(const char *path, int prot, int flags)
{
	int fd = open(path, O_RDONLY);
	void *p = mmap(NULL, FILE_BYTES, prot, flags, fd, 0);

	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

static void read_pages(const unsigned char *p, size_t first, size_t count)
{
	for (size_t i = first; i < first + count; i++)
		(void)*(const volatile unsigned char *)(p + i * page);
}

static void write_pages(unsigned char *p, size_t first, size_t count)
{
	for (size_t i = first; i < first + count; i++)
		*(volatile unsigned char *)(p + i * page) = 1;
}

static const struct h2d_file_mapping *find(const struct h2d_process *p, const void *address)
{
	for (size_t i = 0; i < p->mapping_count; i++)
		if (p->mappings[i].begin == (uintptr_t)address)
			return &p->mappings[i];
	return NULL;
}

static void mapped_as_pytorch_does(void)
{
	unsigned char *p = map(checkpoint("rw", true), PROT_READ | PROT_WRITE, MAP_PRIVATE);
	const struct h2d_file_mapping *m;
	struct h2d_process self;

	REQUIRE(p);
	madvise(p, FILE_BYTES, MADV_RANDOM);
	CHECK_EQ(h2d_process_read(NULL, getpid(), &scratch_log, &self), 0);
	m = find(&self, p);
	REQUIRE(m);
	CHECK_STR(m->permissions, "rw-p");
	CHECK_EQ(m->end - m->begin, FILE_BYTES);
	CHECK_EQ(m->anonymous_bytes, 0);
	CHECK(self.files[m->file].checkpoint);
	CHECK_EQ(self.files[m->file].format, H2D_FORMAT_SAFETENSORS);
	CHECK_EQ(self.files[m->file].size_bytes, FILE_BYTES);
	CHECK(m->advice & H2D_ADVICE_RANDOM);
	CHECK(self.random_advice);
	CHECK(!h2d_mapping_is_copied(&self, m));
	CHECK_EQ(self.writable.mapping_count, 1);
	CHECK_EQ(self.copied.mapping_count, 0);
	h2d_process_free(&self);

	read_pages(p, 0, FILE_BYTES / page);
	write_pages(p, 7, 131);
	CHECK_EQ(h2d_process_read(NULL, getpid(), &scratch_log, &self), 0);
	m = find(&self, p);
	REQUIRE(m);
	CHECK_EQ(m->present_bytes, FILE_BYTES);
	CHECK_EQ(m->anonymous_bytes, 131 * page);
	CHECK_EQ(m->swap_bytes, 0);
	CHECK(h2d_mapping_is_copied(&self, m));
	CHECK_EQ(self.copied.anonymous_bytes, 131 * page);
	CHECK_EQ(self.checkpoint_file_bytes, FILE_BYTES);
	if (m->cached_known)
		CHECK_EQ(m->cached_bytes, FILE_BYTES);
	h2d_process_free(&self);
	munmap(p, FILE_BYTES);
}

/* Private_Dirty counts dirty pages of the file too: nobody is to be blamed for them. */
static void read_only_is_not_blamed(void)
{
	unsigned char *p = map(checkpoint("unsynced", false), PROT_READ, MAP_PRIVATE);
	const struct h2d_file_mapping *m;
	struct h2d_process self;

	REQUIRE(p);
	read_pages(p, 0, FILE_BYTES / page);
	CHECK_EQ(h2d_process_read(NULL, getpid(), &scratch_log, &self), 0);
	m = find(&self, p);
	REQUIRE(m);
	CHECK_STR(m->permissions, "r--p");
	CHECK_EQ(m->present_bytes, FILE_BYTES);
	CHECK_EQ(m->anonymous_bytes, 0);
	CHECK(!h2d_mapping_is_copied(&self, m));
	CHECK_EQ(self.copied.mapping_count, 0);
	printf("Private_Dirty of the unsynced file: %llu bytes\n",
	       (unsigned long long)m->private_dirty_bytes);
	h2d_process_free(&self);
	munmap(p, FILE_BYTES);
}

/* A writable mapping that nobody wrote is not blamed either, dirty file or not. */
static void writable_but_unwritten(void)
{
	unsigned char *p =
		map(checkpoint("rw-unsynced", false), PROT_READ | PROT_WRITE, MAP_PRIVATE);
	struct h2d_process self;

	REQUIRE(p);
	read_pages(p, 0, FILE_BYTES / page);
	CHECK_EQ(h2d_process_read(NULL, getpid(), &scratch_log, &self), 0);
	CHECK_EQ(self.writable.mapping_count, 1);
	CHECK_EQ(self.writable.present_bytes, FILE_BYTES);
	CHECK_EQ(self.copied.mapping_count, 0);
	h2d_process_free(&self);
	munmap(p, FILE_BYTES);
}

/* mprotect() undoes no copy; a mapping that was never written stays innocent. */
static void made_read_only_since(void)
{
	const char *path = checkpoint("ro-since", true);
	unsigned char *p = map(path, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	unsigned char *q = map(path, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	const struct h2d_file_mapping *m;
	struct h2d_process self;

	REQUIRE(p && q);
	write_pages(p, 3, 5);
	read_pages(q, 0, FILE_BYTES / page);
	CHECK_EQ(mprotect(p, FILE_BYTES, PROT_READ), 0);
	CHECK_EQ(mprotect(q, FILE_BYTES, PROT_READ), 0);
	CHECK_EQ(h2d_process_read(NULL, getpid(), &scratch_log, &self), 0);
	m = find(&self, p);
	REQUIRE(m);
	CHECK_STR(m->permissions, "r--p");
	CHECK(h2d_mapping_is_copied(&self, m));
	m = find(&self, q);
	REQUIRE(m);
	CHECK(!h2d_mapping_is_copied(&self, m));
	CHECK_EQ(self.writable.mapping_count, 0);
	CHECK_EQ(self.copied.mapping_count, 1);
	CHECK_EQ(self.copied.anonymous_bytes, 5 * page);
	CHECK(!h2d_process_unknown(&self));
	h2d_process_free(&self);
	munmap(p, FILE_BYTES);
	munmap(q, FILE_BYTES);
}

static void shared_is_not_blamed(void)
{
	const char *path = checkpoint("shared", true);
	int fd = open(path, O_RDWR);
	unsigned char *p = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	const struct h2d_file_mapping *m;
	struct h2d_process self;

	REQUIRE(p != MAP_FAILED);
	close(fd);
	write_pages(p, 1, 5);
	CHECK_EQ(h2d_process_read(NULL, getpid(), &scratch_log, &self), 0);
	m = find(&self, p);
	REQUIRE(m);
	CHECK_STR(m->permissions, "rw-s");
	CHECK_EQ(m->anonymous_bytes, 0);
	CHECK(!h2d_mapping_is_copied(&self, m));
	h2d_process_free(&self);
	munmap(p, FILE_BYTES);
}

/* The mapping leads to its file by device and inode, whatever its path now names. */
static void deleted_and_replaced(void)
{
	const char *path = checkpoint("old", true);
	unsigned char *p = map(path, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	const struct h2d_file_mapping *m;
	struct h2d_process self;
	int fd = open(path, O_RDONLY);

	REQUIRE(p && fd >= 0);
	write_pages(p, 0, 3);
	unlink(path);
	/* Another file of that name, and no checkpoint. */
	path = scratch_file("old", 8192);
	CHECK_EQ(h2d_process_read(NULL, getpid(), &scratch_log, &self), 0);
	m = find(&self, p);
	REQUIRE(m);
	CHECK(self.files[m->file].deleted);
	CHECK(self.files[m->file].checkpoint);
	CHECK_EQ(self.files[m->file].size_bytes, FILE_BYTES);
	CHECK_EQ(self.copied.anonymous_bytes, 3 * page);
	h2d_process_free(&self);
	close(fd);
	munmap(p, FILE_BYTES);
}

static void other_content_is_none(void)
{
	const char *path = scratch_file("noise.safetensors", FILE_BYTES);
	unsigned char *p = map(path, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	const struct h2d_file_mapping *m;
	struct h2d_process self;

	REQUIRE(p);
	write_pages(p, 0, 3);
	CHECK_EQ(h2d_process_read(NULL, getpid(), &scratch_log, &self), 0);
	m = find(&self, p);
	REQUIRE(m);
	CHECK(self.files[m->file].content_known);
	CHECK(!self.files[m->file].checkpoint);
	CHECK(!self.files[m->file].named_like_one);
	CHECK(!h2d_mapping_is_copied(&self, m));
	h2d_process_free(&self);
	munmap(p, FILE_BYTES);
}

/* ---- other processes ---- */

/* A child that runs `body` and then waits; its pid once `body` has returned. */
static pid_t child(int (*body)(void *), void *arg, int *status)
{
	int ready[2];
	char c = 0;
	pid_t pid;

	if (pipe(ready))
		return -1;
	pid = fork();
	if (!pid) {
		close(ready[0]);
		c = (char)body(arg);
		if (write(ready[1], &c, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	*status = read(ready[0], &c, 1) == 1 ? c : -1;
	close(ready[0]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static int map_and_write(void *arg)
{
	unsigned char *p = map(arg, PROT_READ | PROT_WRITE, MAP_PRIVATE);

	if (!p)
		return 1;
	write_pages(p, 0, 9);
	return 0;
}

static void a_child_and_its_end(void)
{
	char path[256];
	struct h2d_process p;
	int status, found = 0;
	pid_t pid;

	snprintf(path, sizeof(path), "%s", checkpoint("child", true));
	pid = child(map_and_write, path, &status);
	REQUIRE(pid > 0 && !status);
	CHECK_EQ(h2d_process_read(NULL, pid, &scratch_log, &p), 0);
	CHECK_EQ(p.copied.anonymous_bytes, 9 * page);
	CHECK(!p.exited);
	h2d_process_free(&p);

	/* A corpse that nobody buried maps nothing. */
	kill(pid, SIGKILL);
	for (int i = 0; i < 5000 && p.state != 'Z'; i++) {
		int rc = h2d_process_read(NULL, pid, &scratch_log, &p);

		found = rc == 0;
		if (!found)
			break;
		status = p.state;
		CHECK(status != 'Z' || strstr(h2d_process_unknown(&p), "zombie"));
		h2d_process_free(&p);
		p.state = (char)status;
		usleep(1000);
	}
	CHECK(found);
	waitpid(pid, NULL, 0);
	CHECK_EQ(h2d_process_read(NULL, pid, &scratch_log, &p), H2D_E_NOT_FOUND);
	CHECK(scratch_logged("no process"));
	h2d_process_free(&p);
}

/* ---- threads ---- */

struct threaded {
	const char *path;
	int ready;
};

static void *map_write_wait(void *arg)
{
	struct threaded *t = arg;
	char c = (char)map_and_write((void *)(uintptr_t)t->path);

	while (write(t->ready, &c, 1) == 1)
		pause();
	return NULL;
}

/* Ends with its parent, and keeps none of its pipes open meanwhile. */
static int hold(void *arg)
{
	syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	for (int fd = 3; fd < 64; fd++)
		syscall(SYS_close, fd);
	while (syscall(SYS_ppoll, NULL, 0, NULL, NULL) < 0)
		;
	return arg != NULL;
}

/* Waits in state D until the child that has its memory lets go of it, as vfork() does. */
static void *wait_in_kernel(void *arg)
{
	static _Alignas(64) char stack[64 << 10];

	clone(hold, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
	return arg;
}

/* A child of its own group, with a thread that works, one that may hang, and a first one that
 * ends or waits. */
static pid_t threads(const char *path, bool hang, bool first_ends)
{
	int ready[2];
	char c = 1;
	pid_t pid;

	if (pipe(ready))
		return -1;
	pid = fork();
	if (!pid) {
		struct threaded t = {path, ready[1]};
		pthread_t id;

		setpgid(0, 0);
		if (hang && pthread_create(&id, NULL, wait_in_kernel, &t))
			_exit(1);
		if (pthread_create(&id, NULL, map_write_wait, &t))
			_exit(1);
		if (first_ends)
			pthread_exit(NULL);
		pthread_join(id, NULL);
		_exit(0);
	}
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1 || c) {
		kill(-pid, SIGKILL);
		pid = -1;
	}
	close(ready[0]);
	return pid;
}

static void end_threads(pid_t pid)
{
	kill(-pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Of a process whose first thread has ended, /proc/PID tells no memory. */
static void the_first_thread_has_ended(void)
{
	char path[256], stat[64], state = 0;
	struct h2d_sample sample;
	struct h2d_process p;
	pid_t pid;

	snprintf(path, sizeof(path), "%s", checkpoint("leaderless", true));
	pid = threads(path, false, true);
	REQUIRE(pid > 0);
	snprintf(stat, sizeof(stat), "/proc/%d/stat", pid);
	for (int i = 0; i < 5000 && state != 'Z'; i++) {
		state = h2d_task_state(NULL, stat);
		usleep(1000);
	}
	CHECK_EQ(state, 'Z');
	CHECK_EQ(h2d_process_read(NULL, pid, &scratch_log, &p), 0);
	CHECK(p.task != pid && p.state != 'Z');
	CHECK_EQ(p.copied.anonymous_bytes, 9 * page);
	CHECK(!p.exited && !h2d_process_unknown(&p));
	h2d_sample_take(NULL, pid, &sample);
	CHECK(!sample.gone && sample.rss_anon_bytes.known);
	CHECK_EQ(sample.start_ticks, p.start_ticks);
	/* Another process that had this number before is not the one that was watched. */
	h2d_sample_must_be(&sample, p.start_ticks);
	CHECK(!sample.gone);
	h2d_sample_must_be(&sample, p.start_ticks + 1);
	CHECK(sample.gone);
	h2d_process_free(&p);
	end_threads(pid);
}

__attribute__((unused)) static void a_worker_hangs(void)
{
	struct h2d_sample samples[2];
	struct h2d_trend trend;
	char path[256];
	pid_t pid;

	snprintf(path, sizeof(path), "%s", checkpoint("worker", true));
	pid = threads(path, true, false);
	REQUIRE(pid > 0);
	for (int i = 0; i < 2000; i++) {
		h2d_sample_take(NULL, pid, &samples[0]);
		if (samples[0].threads_in_kernel)
			break;
		usleep(1000);
	}
	usleep(20000);
	h2d_sample_take(NULL, pid, &samples[1]);
	CHECK(samples[1].thread_states_known);
	CHECK_EQ(samples[1].threads_in_kernel, 1);
	CHECK(samples[1].state != 'D');
	h2d_trend_of(samples, 2, &trend);
	CHECK_EQ(trend.threads_stuck, 1);
	end_threads(pid);
}

/* It may end at any moment: an answer or a clear no, never a crash or a hang. */
static void ends_while_looked_at(void)
{
	char path[256];

	snprintf(path, sizeof(path), "%s", checkpoint("ending", true));
	for (int i = 0; i < 30; i++) {
		struct h2d_process p;
		int status, rc;
		pid_t killer, pid = child(map_and_write, path, &status);

		REQUIRE(pid > 0 && !status);
		killer = fork();
		if (!killer) {
			usleep((useconds_t)(i * 40));
			kill(pid, SIGKILL);
			_exit(0);
		}
		rc = h2d_process_read(NULL, pid, &scratch_log, &p);
		CHECK(rc == 0 || rc == H2D_E_NOT_FOUND || rc == H2D_E_PERMISSION);
		h2d_process_free(&p);
		waitpid(killer, NULL, 0);
		waitpid(pid, NULL, 0);
	}
}

static void of_another_user(void)
{
	pid_t parent = getpid(), pid;
	int status;

	if (geteuid()) {
		printf("not run: only root can become somebody else\n");
		return;
	}
	pid = fork();
	if (!pid) {
		struct h2d_process p;
		int rc;

		if (setgroups(0, NULL) || setgid(65534) || setuid(65534))
			_exit(2);
		rc = h2d_process_read(NULL, parent, &scratch_log, &p);
		_exit(rc == H2D_E_PERMISSION && scratch_logged("as its user or as root") ? 0
											 : 1);
	}
	waitpid(pid, &status, 0);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
}

/* A mount that only the child sees, holding a file that our names do not lead to. */
static int map_in_namespace(void *arg)
{
	const char *dir = arg;
	char path[512];

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", dir, "tmpfs", 0, "size=8m"))
		return 77;
	snprintf(path, sizeof(path), "%s/model", dir);
	scratch_dir[0] = 0; /* ours is below the mount now */
	{
		static const unsigned char head[16] = "\x08\0\0\0\0\0\0\0{}      ";
		int fd = open(path, O_RDWR | O_CREAT, 0600);

		if (fd < 0 || ftruncate(fd, FILE_BYTES) || pwrite(fd, head, 16, 0) != 16)
			return 1;
		close(fd);
	}
	return map_and_write(path);
}

static void in_another_namespace(void)
{
	char dir[300], here[200];
	struct h2d_process p;
	int status;
	pid_t pid;

	if (!getcwd(here, sizeof(here)))
		return;
	snprintf(dir, sizeof(dir), "%s/%s", here, scratch_path("mount"));
	REQUIRE(!mkdir(dir, 0700));
	pid = child(map_in_namespace, dir, &status);
	REQUIRE(pid > 0);
	if (status == 77) {
		printf("not run: no namespace can be made here\n");
		end(pid);
		return;
	}
	CHECK_EQ(status, 0);
	CHECK_EQ(h2d_process_read(NULL, pid, &scratch_log, &p), 0);
	CHECK_EQ(p.checkpoint_count, 1);
	CHECK_EQ(p.copied.anonymous_bytes, 9 * page);
	if (p.largest)
		CHECK_STR(p.largest->mount.type, "tmpfs");
	h2d_process_free(&p);
	end(pid);
}

static void kernel_threads_map_nothing(void)
{
	struct h2d_process p;
	int rc = h2d_process_read(NULL, 2, &scratch_log, &p);

	/* In a container 2 may be anybody, or nobody. */
	CHECK(rc == 0 || rc == H2D_E_NOT_FOUND || rc == H2D_E_PERMISSION);
	h2d_process_free(&p);
}

int main(void)
{
	page = (size_t)sysconf(_SC_PAGESIZE);
	RUN(mapped_as_pytorch_does);
	RUN(read_only_is_not_blamed);
	RUN(writable_but_unwritten);
	RUN(made_read_only_since);
	RUN(shared_is_not_blamed);
	RUN(deleted_and_replaced);
	RUN(other_content_is_none);
	RUN(a_child_and_its_end);
	RUN(the_first_thread_has_ended);
#ifdef __SANITIZE_THREAD__
	printf("not run: ThreadSanitizer knows no child that shares its parent's memory\n");
#else
	RUN(a_worker_hangs);
#endif
	RUN(ends_while_looked_at);
	RUN(of_another_user);
	RUN(in_another_namespace);
	RUN(kernel_threads_map_nothing);
	return TEST_DONE();
}
