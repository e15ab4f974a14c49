// Package monitor has the traits and the judgement of the monitor, which follows submitted batches
// until their outcomes are known (docs/glossary.md#dlt-polling-monitor), and settles attempts in
// doubt before anything is sent again. A pure function, [Decide], decides the meaning of a
// ledger's answer.
package monitor
