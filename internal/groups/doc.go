// Package groups writes to the store in groups: a [Recorder] the outcomes of attempts, a [Keeper]
// the bytes that clients prepare before a POST.
package groups
