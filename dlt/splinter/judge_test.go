package splinter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// TestEvidenceOfKnowledge shows each way to evidence, and the result if a part of it is missing.
func TestEvidenceOfKnowledge(t *testing.T) {
	const second = time.Second
	node := time.Unix(1_000_000, 0)
	// base returns what proves that a batch was not committed. Its attempt was claimed 100 s ago
	// and ended 90 s ago, on a ledger with a LateArrival of 60 s. The log covers 105 s to 25 s
	// ago.
	base := func(r batch.Reported) doubtFacts {
		return doubtFacts{
			resolveRules: resolveRules{lateArrival: 60 * second, staleAfter: 20 * second, margin: 2 * second},
			doubt:        dlt.Doubt{Attempt: batch.Attempt{Number: 1}, Since: 100 * second, Ended: 90 * second},
			ownAnswer:    answer{Status: batch.Status{Reported: r}, firstSeen: node},
		}
	}
	witness := func(k *doubtFacts) {
		k.witnesses = []answer{
			{Status: batch.Status{Reported: batch.ReportedUnknown}, firstSeen: node},
			{Status: batch.Status{Reported: batch.ReportedCommitted}, firstSeen: node.Add(-100 * second)},
		}
	}
	log := func(k *doubtFacts) {
		k.hasLog, k.log = true, batch.StreamFound{Covered: true, Since: 105 * second, Until: 25 * second}
	}
	in := func(k *doubtFacts) { k.hasLog, k.log.IDs = true, []string{"t"} }
	twice := func(k *doubtFacts) { k.doubt.Number = 2 }
	missing := func(k *doubtFacts) { k.receipts, k.needsAgreement = receiptsMissing, true }
	there := func(k *doubtFacts) { k.receipts = receiptsPresent }
	single := func(k *doubtFacts) { k.needsAgreement = false }
	says := func(e dlt.Evidence) func(*doubtFacts) { return func(k *doubtFacts) { k.stateEvidence = e } }
	early := func(k *doubtFacts) { k.doubt.Ended = 59 * second }
	old := func(k *doubtFacts) { k.validFor = 89 * second }
	const (
		unknown, pending, valid = batch.ReportedUnknown, batch.ReportedPending, batch.ReportedValid
		invalid, committed      = batch.ReportedInvalid, batch.ReportedCommitted
	)
	for name, row := range map[string]struct {
		reported batch.Reported
		changes  []func(*doubtFacts)
		want     dlt.Evidence
	}{
		"no answer": {0, nil, dlt.CannotTell},
		"committed": {committed, nil, dlt.Committed},
		"pending":   {pending, []func(*doubtFacts){log, witness}, dlt.InFlight},

		"unknown, nothing else":           {unknown, nil, dlt.CannotTell},
		"unknown, a witness is known":     {unknown, []func(*doubtFacts){witness}, dlt.NotCommitted},
		"unknown, witness, too early":     {unknown, []func(*doubtFacts){witness, early}, dlt.InFlight},
		"unknown, witness, a slow answer": {unknown, []func(*doubtFacts){witness, func(k *doubtFacts) { k.elapsed = 3 * second }}, dlt.InFlight},
		"unknown, witness, but logged":    {unknown, []func(*doubtFacts){witness, in}, dlt.Committed},
		"unknown, the witness is pending": {unknown, []func(*doubtFacts){witness, func(k *doubtFacts) { k.witnesses[1].Reported = pending }}, dlt.NotCommitted},
		"unknown, the witness is forgotten": {unknown, []func(*doubtFacts){witness, func(k *doubtFacts) {
			k.witnesses = k.witnesses[:1]
		}}, dlt.CannotTell},
		"unknown, the witness was seen again since": {unknown, []func(*doubtFacts){witness, func(k *doubtFacts) {
			k.witnesses[1].firstSeen = node.Add(-99 * second)
		}}, dlt.CannotTell},
		"unknown, the witness was seen again while Resolve asked": {unknown, []func(*doubtFacts){witness, func(k *doubtFacts) {
			k.elapsed = second
		}}, dlt.CannotTell},
		"unknown, the witness has no time": {unknown, []func(*doubtFacts){witness, func(k *doubtFacts) {
			k.witnesses[1].firstSeen = time.Time{}
		}}, dlt.NotCommitted},
		"unknown, witness, a later attempt of what was seen": {unknown, []func(*doubtFacts){witness, twice}, dlt.CannotTell},

		"unknown, log":                 {unknown, []func(*doubtFacts){log}, dlt.NotCommitted},
		"unknown, second attempt, log": {unknown, []func(*doubtFacts){log, twice}, dlt.NotCommitted},
		"unknown, log, too early":      {unknown, []func(*doubtFacts){log, early}, dlt.InFlight},
		"unknown, log with a gap":      {unknown, []func(*doubtFacts){log, func(k *doubtFacts) { k.log.Covered = false }}, dlt.CannotTell},
		"unknown, no such log":         {unknown, []func(*doubtFacts){log, func(k *doubtFacts) { k.hasLog = false }}, dlt.CannotTell},
		"unknown, in the log":          {unknown, []func(*doubtFacts){in}, dlt.Committed},
		"unknown, the log begins late": {unknown, []func(*doubtFacts){log, func(k *doubtFacts) { k.log.Since = 99 * second }}, dlt.CannotTell},
		"unknown, the log begins within the margin": {unknown, []func(*doubtFacts){log, func(k *doubtFacts) {
			k.log.Since = 101 * second
		}}, dlt.CannotTell},
		"unknown, the log begins while Resolve asks": {unknown, []func(*doubtFacts){log, func(k *doubtFacts) {
			k.log.Since, k.elapsed = 103*second, 1500*time.Millisecond
		}}, dlt.CannotTell},
		"unknown, the log ends early": {unknown, []func(*doubtFacts){log, func(k *doubtFacts) { k.log.Until = 31 * second }}, dlt.CannotTell},
		"unknown, the log ends within the margin": {unknown, []func(*doubtFacts){log, func(k *doubtFacts) {
			k.log.Until = 29 * second
		}}, dlt.CannotTell},

		"unknown, no receipts":               {unknown, []func(*doubtFacts){missing}, dlt.NotCommitted},
		"unknown, no receipts, too early":    {unknown, []func(*doubtFacts){missing, early}, dlt.InFlight},
		"unknown, no receipts, nobody else":  {unknown, []func(*doubtFacts){missing, single}, dlt.CannotTell},
		"unknown, no receipts, but logged":   {unknown, []func(*doubtFacts){missing, in}, dlt.Committed},
		"unknown, no receipts, slow":         {unknown, []func(*doubtFacts){missing, func(k *doubtFacts) { k.elapsed = 3 * second }}, dlt.InFlight},
		"unknown, receipts":                  {unknown, []func(*doubtFacts){there}, dlt.Committed},
		"unknown, receipts, early":           {unknown, []func(*doubtFacts){there, early}, dlt.Committed},
		"pending, no receipts":               {pending, []func(*doubtFacts){missing}, dlt.InFlight},
		"pending again, receipts":            {pending, []func(*doubtFacts){there, twice}, dlt.Committed},
		"invalid, second, no receipts":       {invalid, []func(*doubtFacts){twice, missing}, dlt.NotCommitted},
		"invalid, second, receipts":          {invalid, []func(*doubtFacts){twice, there}, dlt.Committed},
		"valid, no receipts":                 {valid, []func(*doubtFacts){missing}, dlt.InFlight},
		"valid for long, no receipts":        {valid, []func(*doubtFacts){old, missing}, dlt.NotCommitted},
		"valid for long, no receipts, early": {valid, []func(*doubtFacts){old, missing, early}, dlt.InFlight},

		"unknown, no effect":          {unknown, []func(*doubtFacts){says(dlt.NotCommitted)}, dlt.NotCommitted},
		"unknown, no effect, early":   {unknown, []func(*doubtFacts){says(dlt.NotCommitted), early}, dlt.InFlight},
		"unknown, no effect, log":     {unknown, []func(*doubtFacts){says(dlt.NotCommitted), in}, dlt.Committed},
		"unknown, effect":             {unknown, []func(*doubtFacts){says(dlt.Committed)}, dlt.Committed},
		"unknown, no idea":            {unknown, []func(*doubtFacts){says(dlt.CannotTell)}, dlt.CannotTell},
		"pending, no effect":          {pending, []func(*doubtFacts){says(dlt.NotCommitted)}, dlt.InFlight},
		"valid for long, no effect":   {valid, []func(*doubtFacts){old, says(dlt.NotCommitted)}, dlt.NotCommitted},
		"valid, no effect":            {valid, []func(*doubtFacts){says(dlt.NotCommitted)}, dlt.InFlight},
		"invalid, second, no effect":  {invalid, []func(*doubtFacts){twice, says(dlt.NotCommitted)}, dlt.NotCommitted},
		"no answer, whatever is said": {0, []func(*doubtFacts){missing, says(dlt.NotCommitted)}, dlt.CannotTell},

		"unknown, the log is behind": {unknown, []func(*doubtFacts){log, func(k *doubtFacts) {
			k.doubt.Ended, k.log.Until, k.maxLogAge = 61*second, 3*second, 5*second
		}}, dlt.InFlight},
		"unknown, the log is behind, and begins late": {unknown, []func(*doubtFacts){log, func(k *doubtFacts) {
			k.doubt.Ended, k.log.Until, k.maxLogAge, k.log.Since = 61*second, 3*second, 5*second, 99*second
		}}, dlt.CannotTell},
		"unknown, the log has ended": {unknown, []func(*doubtFacts){log, func(k *doubtFacts) {
			k.doubt.Ended, k.log.Until, k.maxLogAge = 61*second, 6*second, 5*second
		}}, dlt.CannotTell},
		"unknown, the log is behind for too long": {unknown, []func(*doubtFacts){log, func(k *doubtFacts) {
			k.doubt.Ended, k.log.Until, k.maxLogAge = 68*second, 7*second, 5*second
		}}, dlt.CannotTell},
		"invalid":                       {invalid, nil, dlt.NotCommitted},
		"invalid, too early":            {invalid, []func(*doubtFacts){early}, dlt.InFlight},
		"invalid, the second attempt":   {invalid, []func(*doubtFacts){twice, witness}, dlt.CannotTell},
		"invalid, second, log":          {invalid, []func(*doubtFacts){twice, log}, dlt.NotCommitted},
		"invalid, second, first logged": {invalid, []func(*doubtFacts){twice, in}, dlt.Committed},

		"valid":                      {valid, []func(*doubtFacts){log}, dlt.InFlight},
		"valid for long":             {valid, []func(*doubtFacts){old}, dlt.CannotTell},
		"valid for long, log":        {valid, []func(*doubtFacts){old, log}, dlt.NotCommitted},
		"valid for long, logged":     {valid, []func(*doubtFacts){old, in}, dlt.Committed},
		"valid for long, log, early": {valid, []func(*doubtFacts){old, log, early}, dlt.InFlight},
		"valid, log ends before two-phase commit was over": {valid, []func(*doubtFacts){log, func(k *doubtFacts) {
			k.validFor = 45 * second // so that its two-phase commit was over at least 25 s ago
		}}, dlt.CannotTell},
		"valid, log ends after": {valid, []func(*doubtFacts){log, func(k *doubtFacts) { k.validFor = 47 * second }}, dlt.NotCommitted},
		"valid, sent just now":  {valid, []func(*doubtFacts){old, log, func(k *doubtFacts) { k.doubt.Ended = 19 * second }}, dlt.InFlight},
	} {
		t.Run(name, func(t *testing.T) {
			k := base(row.reported)
			for _, f := range row.changes {
				f(&k)
			}
			assert.Equal(t, row.want, k.evidence())
		})
	}
}
