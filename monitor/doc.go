// Package monitor follows what was submitted until its outcome is known (spec/002),
// and finds out about attempts in doubt before anything is sent again. What a
// ledger's answer means is decided by a pure function, [Decide].
package monitor
