/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes a package out of the distribution's archive by way of apt, which checks signatures. It
 * is downloaded beside the cache and renamed into it, so that a broken download is never found
 * there.
 */
#include "internal.h"
#include "spawn.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FETCH_TIMEOUT_MS 600000u

/* Names and versions of Debian policy 5.6.1 and 5.6.12: nothing apt could take for an option.
 */
static bool plain(const char *text, const char *more)
{
	if (!((*text >= 'a' && *text <= 'z') || (*text >= '0' && *text <= '9')))
		return false;
	for (; *text; text++)
		if (!((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
		      (*text >= '0' && *text <= '9') || strchr(more, *text)))
			return false;
	return true;
}

/* Moves the one package of `from` into the cache. */
static int take(struct lab *lab, struct lab_pool *pool, const char *from)
{
	DIR *dir = opendir(from);
	struct dirent *entry;
	int err = H2D_E_UNAVAILABLE;

	if (!dir)
		return h2d_fail_errno(&lab->log, errno, "%s", from);
	while (err == H2D_E_UNAVAILABLE && (entry = readdir(dir))) {
		size_t length = strlen(entry->d_name);
		char *source, *target;

		if (length < 5 || strcmp(entry->d_name + length - 4, ".deb") != 0)
			continue;
		source = lab_format("%s/%s", from, entry->d_name);
		target = lab_format("%s/kernels/%s", lab->cache, entry->d_name);
		if (!source || !target)
			err = h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
		else if (rename(source, target) != 0)
			err = h2d_fail_errno(&lab->log, errno, "%s", target);
		else
			err = lab_pool_add_file(lab, pool, target, LAB_ORIGIN_ARCHIVE);
		free(source);
		free(target);
	}
	closedir(dir);
	return err;
}

static int run_apt(struct lab *lab, const char *directory, const char *what, char **why)
{
	char apt[256];
	struct lab_command command = {
		.argv = (const char *const[]){apt, "download", "-q", what, NULL},
		.environment = (const char *const[]){"LC_ALL=C",
						     "DEBIAN_FRONTEND=noninteractive", NULL},
		.cwd = directory,
		.timeout_ms = FETCH_TIMEOUT_MS,
		.keep_bytes = 4096,
		.cancel = &lab->cancel,
	};
	struct lab_outcome outcome;
	int err;

	if (lab_find_program("apt-get", apt, sizeof(apt)) != 0) {
		*why = strdup("there is no apt-get to fetch it with");
		return H2D_E_UNAVAILABLE;
	}
	h2d_log_line(&lab->log, H2D_LOG_INFO, "fetching %s", what);
	err = lab_spawn(&command, &outcome);
	if (err) {
		*why = lab_format("apt-get: %s", strerror(-err));
		err = H2D_E_UNAVAILABLE;
	} else if (outcome.cancelled) {
		err = h2d_fail(&lab->log, H2D_E_CANCELLED, "cancelled");
	} else if (outcome.timed_out || outcome.status != 0) {
		char *text = lab_text_string(&outcome.err);

		if (text)
			text[strcspn(text, "\n")] = 0;
		*why = outcome.timed_out ? strdup("the archive did not answer in time")
					 : lab_format("the archive does not have it (%s)",
						      text && *text ? text : "apt-get failed");
		free(text);
		err = H2D_E_UNAVAILABLE;
	}
	lab_outcome_free(&outcome);
	return err;
}

int lab_fetch(struct lab *lab, struct lab_pool *pool, const char *name, const char *version,
	      char **why)
{
	char *directory = NULL, *kernels = NULL, *what = NULL;
	int err = H2D_E_UNAVAILABLE;

	*why = NULL;
	if (!plain(name, "+-.") || (version && !plain(version, "+-.~:"))) {
		*why = strdup("no name that an archive could have");
		return H2D_E_UNAVAILABLE;
	}
	if (lab->options.offline || !lab->cache) {
		*why = strdup(lab->options.offline ? "the archive was not asked (offline)"
						   : "there is no cache folder to fetch it to");
		return H2D_E_UNAVAILABLE;
	}
	kernels = lab_format("%s/kernels", lab->cache);
	directory = lab_format("%s/kernels/.fetch-XXXXXX", lab->cache);
	what = version ? lab_format("%s=%s", name, version) : strdup(name);
	if (!kernels || !directory || !what) {
		err = h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
		goto out;
	}
	if (lab_make_dirs(kernels) != 0 || !mkdtemp(directory)) {
		*why = lab_format("%s: %s", kernels, strerror(errno));
		goto out;
	}
	err = run_apt(lab, directory, what, why);
	if (!err)
		err = take(lab, pool, directory);
	lab_remove_tree(directory);
out:
	if (err == H2D_E_UNAVAILABLE && !*why)
		*why = strdup("nothing was downloaded");
	free(kernels);
	free(directory);
	free(what);
	return err;
}
