// Package monitor follows what was submitted until its outcome is known
// (docs/glossary.md#dlt-polling-monitor), and finds out about attempts in doubt before anything
// is sent again. What a ledger's answer means is decided by a pure function, [Decide].
package monitor
