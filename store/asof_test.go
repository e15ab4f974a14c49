package store

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// AsOf keeps its rules for any sequence of findings and any step of the clock, by seconds or by up
// to a year in either direction: no time counts for longer than its rule allows, a row changes
// only after a step, and a resend that is harmless for a limited time is not harmless after a step
// that the row shows.
func TestAsOf(t *testing.T) {
	const claimTTL = 45 * time.Second
	steps := []time.Duration{time.Second, 3 * time.Second, time.Minute, time.Hour, 24 * time.Hour, 365 * 24 * time.Hour}
	windows := []time.Duration{0, time.Hour, 24 * time.Hour, 290 * 365 * 24 * time.Hour}
	posted := []Finding{Accepted, Doubtful, Failed, Unposted}
	asked := []Finding{IsPending, IsValid, NoTrace, NotCommitted, Doubtful, IsInvalid, Settled, Failed}
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		rule := Resend{HarmlessFor: windows[r.IntN(len(windows))], LateArrival: time.Minute}
		forEver := rule.HarmlessFor == windows[3]
		now, row, stepped := time.Unix(1_700_000_000, 0).UTC(), NewRow(), false
		for n := 0; n < 12 && !row.Final(); n++ {
			if now = now.Add(time.Duration(r.Int64N(int64(2 * time.Minute)))); r.IntN(4) == 0 {
				now, stepped = now.Add(steps[r.IntN(len(steps))]*time.Duration(1-2*r.IntN(2))), true
			}
			is := row.AsOf(now)
			require.False(t, is.Ahead(now), "seed %d: still ahead: %+v", seed, is)
			require.Equal(t, is, is.AsOf(now), "seed %d: once more", seed)
			require.True(t, stepped || !row.Ahead(now), "seed %d: without a step", seed)
			require.False(t, is.Live(now) && is.ClaimExpires.Sub(now) > claimTTL+ClockSlack, "seed %d: a claim lasts too long: %+v", seed, is)
			require.False(t, is.State.Claimable() && is.NotBefore.Sub(now) > time.Hour+ClockSlack, "seed %d: it waits too long: %+v", seed, is)
			if is.DoubtAttempt != 0 && (forEver || row.Ahead(now)) {
				require.Equal(t, forEver, is.Resendable(now, claimTTL, rule), "seed %d: harmless: %+v", seed, is)
			}
			o := Outcome{Version: row.Version, Check: time.Second, Delay: time.Duration(r.Int64N(int64(time.Hour))), Settle: time.Minute}
			switch waiting := (LaneRow{Row: is}); {
			case waiting.pastResend(now, claimTTL, rule):
				row = is.backToMonitor(now)
			case is.isReady(now):
				row = is.Claim(now, claimTTL, rule)
			case row.Live(now):
				o.By, o.Finding, o.Back = batch.BySubmitter, posted[r.IntN(len(posted))], batch.Queued
				row, _ = row.Apply(o, now)
			case !row.State.Claimable():
				if r.IntN(3) == 0 {
					row = row.Leased(now, 10*time.Second)
				}
				o.Version, o.By, o.Finding = row.Version, batch.ByMonitor, asked[r.IntN(len(asked))]
				row, _ = row.Apply(o, now)
			}
		}
	}
}
