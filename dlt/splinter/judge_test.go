package splinter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// TestJudge shows each way to evidence, and the result if a part of it is missing.
func TestJudge(t *testing.T) {
	const second = time.Second
	node := time.Unix(1_000_000, 0)
	// base returns what proves that a batch was not committed. Its attempt was claimed 100 s ago
	// and ended 90 s ago, on a ledger with a LateArrival of 60 s. The log covers 105 s to 25 s
	// ago.
	base := func(r batch.Reported) knowledge {
		return knowledge{
			resolveRules: resolveRules{lateArrival: 60 * second, stale: 20 * second, margin: 2 * second},
			doubt:        dlt.Doubt{Attempt: batch.Attempt{Number: 1}, Since: 100 * second, Ended: 90 * second},
			ownAnswer:    answer{Status: batch.Status{Reported: r}, firstSeen: node},
		}
	}
	witness := func(k *knowledge) {
		k.witnesses = []answer{
			{Status: batch.Status{Reported: batch.ReportedUnknown}, firstSeen: node},
			{Status: batch.Status{Reported: batch.ReportedCommitted}, firstSeen: node.Add(-100 * second)},
		}
	}
	log := func(k *knowledge) {
		k.hasLog, k.log = true, batch.StreamFound{Covered: true, Since: 105 * second, Until: 25 * second}
	}
	in := func(k *knowledge) { k.hasLog, k.log.IDs = true, []string{"t"} }
	twice := func(k *knowledge) { k.doubt.Number = 2 }
	missing := func(k *knowledge) { k.receipts, k.needsAgreement = receiptsMissing, true }
	there := func(k *knowledge) { k.receipts = receiptsThere }
	single := func(k *knowledge) { k.needsAgreement = false }
	says := func(e dlt.Evidence) func(*knowledge) { return func(k *knowledge) { k.stateEvidence = e } }
	early := func(k *knowledge) { k.doubt.Ended = 59 * second }
	old := func(k *knowledge) { k.validFor = 89 * second }
	const (
		unknown, pending, valid = batch.ReportedUnknown, batch.ReportedPending, batch.ReportedValid
		invalid, committed      = batch.ReportedInvalid, batch.ReportedCommitted
	)
	for name, row := range map[string]struct {
		said  batch.Reported
		knows []func(*knowledge)
		want  dlt.Evidence
	}{
		"no answer": {0, nil, dlt.CannotTell},
		"committed": {committed, nil, dlt.Committed},
		"pending":   {pending, []func(*knowledge){log, witness}, dlt.InFlight},

		"unknown, nothing else":           {unknown, nil, dlt.CannotTell},
		"unknown, a witness is known":     {unknown, []func(*knowledge){witness}, dlt.NotCommitted},
		"unknown, witness, too early":     {unknown, []func(*knowledge){witness, early}, dlt.InFlight},
		"unknown, witness, a slow answer": {unknown, []func(*knowledge){witness, func(k *knowledge) { k.elapsed = 3 * second }}, dlt.InFlight},
		"unknown, witness, but logged":    {unknown, []func(*knowledge){witness, in}, dlt.Committed},
		"unknown, the witness is pending": {unknown, []func(*knowledge){witness, func(k *knowledge) { k.witnesses[1].Reported = pending }}, dlt.NotCommitted},
		"unknown, the witness is forgotten": {unknown, []func(*knowledge){witness, func(k *knowledge) {
			k.witnesses = k.witnesses[:1]
		}}, dlt.CannotTell},
		"unknown, the witness was seen again since": {unknown, []func(*knowledge){witness, func(k *knowledge) {
			k.witnesses[1].firstSeen = node.Add(-99 * second)
		}}, dlt.CannotTell},
		"unknown, the witness was seen again while Resolve asked": {unknown, []func(*knowledge){witness, func(k *knowledge) {
			k.elapsed = second
		}}, dlt.CannotTell},
		"unknown, the witness has no time": {unknown, []func(*knowledge){witness, func(k *knowledge) {
			k.witnesses[1].firstSeen = time.Time{}
		}}, dlt.NotCommitted},
		"unknown, witness, a later attempt of what was seen": {unknown, []func(*knowledge){witness, twice}, dlt.CannotTell},

		"unknown, log":                 {unknown, []func(*knowledge){log}, dlt.NotCommitted},
		"unknown, second attempt, log": {unknown, []func(*knowledge){log, twice}, dlt.NotCommitted},
		"unknown, log, too early":      {unknown, []func(*knowledge){log, early}, dlt.InFlight},
		"unknown, log with a gap":      {unknown, []func(*knowledge){log, func(k *knowledge) { k.log.Covered = false }}, dlt.CannotTell},
		"unknown, no such log":         {unknown, []func(*knowledge){log, func(k *knowledge) { k.hasLog = false }}, dlt.CannotTell},
		"unknown, in the log":          {unknown, []func(*knowledge){in}, dlt.Committed},
		"unknown, the log begins late": {unknown, []func(*knowledge){log, func(k *knowledge) { k.log.Since = 99 * second }}, dlt.CannotTell},
		"unknown, the log begins within the margin": {unknown, []func(*knowledge){log, func(k *knowledge) {
			k.log.Since = 101 * second
		}}, dlt.CannotTell},
		"unknown, the log begins while Resolve asks": {unknown, []func(*knowledge){log, func(k *knowledge) {
			k.log.Since, k.elapsed = 103*second, 1500*time.Millisecond
		}}, dlt.CannotTell},
		"unknown, the log ends early": {unknown, []func(*knowledge){log, func(k *knowledge) { k.log.Until = 31 * second }}, dlt.CannotTell},
		"unknown, the log ends within the margin": {unknown, []func(*knowledge){log, func(k *knowledge) {
			k.log.Until = 29 * second
		}}, dlt.CannotTell},

		"unknown, no receipts":               {unknown, []func(*knowledge){missing}, dlt.NotCommitted},
		"unknown, no receipts, too early":    {unknown, []func(*knowledge){missing, early}, dlt.InFlight},
		"unknown, no receipts, nobody else":  {unknown, []func(*knowledge){missing, single}, dlt.CannotTell},
		"unknown, no receipts, but logged":   {unknown, []func(*knowledge){missing, in}, dlt.Committed},
		"unknown, no receipts, slow":         {unknown, []func(*knowledge){missing, func(k *knowledge) { k.elapsed = 3 * second }}, dlt.InFlight},
		"unknown, receipts":                  {unknown, []func(*knowledge){there}, dlt.Committed},
		"unknown, receipts, early":           {unknown, []func(*knowledge){there, early}, dlt.Committed},
		"pending, no receipts":               {pending, []func(*knowledge){missing}, dlt.InFlight},
		"pending again, receipts":            {pending, []func(*knowledge){there, twice}, dlt.Committed},
		"invalid, second, no receipts":       {invalid, []func(*knowledge){twice, missing}, dlt.NotCommitted},
		"invalid, second, receipts":          {invalid, []func(*knowledge){twice, there}, dlt.Committed},
		"valid, no receipts":                 {valid, []func(*knowledge){missing}, dlt.InFlight},
		"valid for long, no receipts":        {valid, []func(*knowledge){old, missing}, dlt.NotCommitted},
		"valid for long, no receipts, early": {valid, []func(*knowledge){old, missing, early}, dlt.InFlight},

		"unknown, no effect":          {unknown, []func(*knowledge){says(dlt.NotCommitted)}, dlt.NotCommitted},
		"unknown, no effect, early":   {unknown, []func(*knowledge){says(dlt.NotCommitted), early}, dlt.InFlight},
		"unknown, no effect, log":     {unknown, []func(*knowledge){says(dlt.NotCommitted), in}, dlt.Committed},
		"unknown, effect":             {unknown, []func(*knowledge){says(dlt.Committed)}, dlt.Committed},
		"unknown, no idea":            {unknown, []func(*knowledge){says(dlt.CannotTell)}, dlt.CannotTell},
		"pending, no effect":          {pending, []func(*knowledge){says(dlt.NotCommitted)}, dlt.InFlight},
		"valid for long, no effect":   {valid, []func(*knowledge){old, says(dlt.NotCommitted)}, dlt.NotCommitted},
		"valid, no effect":            {valid, []func(*knowledge){says(dlt.NotCommitted)}, dlt.InFlight},
		"invalid, second, no effect":  {invalid, []func(*knowledge){twice, says(dlt.NotCommitted)}, dlt.NotCommitted},
		"no answer, whatever is said": {0, []func(*knowledge){missing, says(dlt.NotCommitted)}, dlt.CannotTell},

		"unknown, the log is behind": {unknown, []func(*knowledge){log, func(k *knowledge) {
			k.doubt.Ended, k.log.Until, k.maxLogAge = 61*second, 3*second, 5*second
		}}, dlt.InFlight},
		"unknown, the log is behind, and begins late": {unknown, []func(*knowledge){log, func(k *knowledge) {
			k.doubt.Ended, k.log.Until, k.maxLogAge, k.log.Since = 61*second, 3*second, 5*second, 99*second
		}}, dlt.CannotTell},
		"unknown, the log has ended": {unknown, []func(*knowledge){log, func(k *knowledge) {
			k.doubt.Ended, k.log.Until, k.maxLogAge = 61*second, 6*second, 5*second
		}}, dlt.CannotTell},
		"unknown, the log is behind for too long": {unknown, []func(*knowledge){log, func(k *knowledge) {
			k.doubt.Ended, k.log.Until, k.maxLogAge = 68*second, 7*second, 5*second
		}}, dlt.CannotTell},
		"invalid":                       {invalid, nil, dlt.NotCommitted},
		"invalid, too early":            {invalid, []func(*knowledge){early}, dlt.InFlight},
		"invalid, the second attempt":   {invalid, []func(*knowledge){twice, witness}, dlt.CannotTell},
		"invalid, second, log":          {invalid, []func(*knowledge){twice, log}, dlt.NotCommitted},
		"invalid, second, first logged": {invalid, []func(*knowledge){twice, in}, dlt.Committed},

		"valid":                      {valid, []func(*knowledge){log}, dlt.InFlight},
		"valid for long":             {valid, []func(*knowledge){old}, dlt.CannotTell},
		"valid for long, log":        {valid, []func(*knowledge){old, log}, dlt.NotCommitted},
		"valid for long, logged":     {valid, []func(*knowledge){old, in}, dlt.Committed},
		"valid for long, log, early": {valid, []func(*knowledge){old, log, early}, dlt.InFlight},
		"valid, log ends before two-phase commit was over": {valid, []func(*knowledge){log, func(k *knowledge) {
			k.validFor = 45 * second // so that its two-phase commit was over at least 25 s ago
		}}, dlt.CannotTell},
		"valid, log ends after": {valid, []func(*knowledge){log, func(k *knowledge) { k.validFor = 47 * second }}, dlt.NotCommitted},
		"valid, sent just now":  {valid, []func(*knowledge){old, log, func(k *knowledge) { k.doubt.Ended = 19 * second }}, dlt.InFlight},
	} {
		t.Run(name, func(t *testing.T) {
			k := base(row.said)
			for _, f := range row.knows {
				f(&k)
			}
			assert.Equal(t, row.want, k.judge())
		})
	}
}
