/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file policy.h
 * Words for what a driver does with the source of a copy, shared by those who measure it, those
 * who read it in the driver's code and those who act on it. @since 0.1
 */
#ifndef H2D_CORE_POLICY_H
#define H2D_CORE_POLICY_H

/** What happens when the kernel's hmm_range_fault() returns -EBUSY. */
enum h2d_retry_policy {
	H2D_RETRY_UNKNOWN,
	H2D_RETRY_REFRESH, /**< the notifier's sequence is read again for each retry */
	H2D_RETRY_STALE,   /**< read once, retried for the whole timeout */
	H2D_RETRY_NONE,	   /**< no retry loop */
};

/** What decides whether write access is asked for. */
enum h2d_permission_rule {
	H2D_PERMISSION_UNKNOWN,
	H2D_PERMISSION_VMA,    /**< write access asked because the mapping is writable */
	H2D_PERMISSION_ACCESS, /**< asked for what the device does */
};

enum h2d_confidence { H2D_CONFIDENCE_LOW, H2D_CONFIDENCE_MEDIUM, H2D_CONFIDENCE_HIGH };

/** "unknown", "refresh", "stale", "no_retry". */
const char *h2d_retry_policy_name(enum h2d_retry_policy p);
/** The reverse; H2D_RETRY_UNKNOWN for NULL and any other word. */
enum h2d_retry_policy h2d_retry_policy_from_name(const char *name);
/** "unknown", "vma", "access". */
const char *h2d_permission_rule_name(enum h2d_permission_rule r);
/** "low", "medium", "high". */
const char *h2d_confidence_name(enum h2d_confidence c);

#endif
