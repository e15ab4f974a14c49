package batch_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
)

func writesFootprint(writes ...string) batch.Footprint { return batch.Footprint{Writes: writes} }

func readsFootprint(prefixes ...string) batch.Footprint { return batch.Footprint{Reads: prefixes} }

// waitingLane makes a lane with one batch for each letter: q queued and ready, n queued and not
// ready, s submitting, p pending, v valid, i invalid, u unknown and ready, f failed and ready.
func waitingLane(states string, footprints ...batch.Footprint) batch.Lane {
	l := batch.Lane{Service: "s"}
	for i, c := range states {
		w := batch.LaneBatch{ID: batch.ID(rune('a' + i)), State: batch.Queued, Ready: c == 'q'}
		switch c {
		case 's':
			w.State = batch.Submitting
		case 'p':
			w.State = batch.Pending
		case 'v':
			w.State = batch.Valid
		case 'i':
			w.State = batch.Invalid
		case 'u':
			w.State, w.Ready = batch.Unknown, true
		case 'f':
			w.State, w.Ready, w.Failed = batch.Delayed, true, true
		case 'r': // a driver's mistake: it marks a batch as ready that cannot be
			w.State, w.Ready = batch.Valid, true
		}
		if len(footprints) > 0 {
			w.Footprint = footprints[i]
		}
		l.Batches = append(l.Batches, w)
	}
	return l
}

// laneCopy returns the lane with KeepsOrder set.
func laneCopy(l batch.Lane) batch.Lane {
	l.KeepsOrder = true
	return l
}

func TestLaneCheck(t *testing.T) {
	apart := []batch.Footprint{writesFootprint("00"), writesFootprint("11"), writesFootprint("22")}
	for name, c := range map[string]struct {
		lane    batch.Lane
		runs    []batch.Run
		wantErr string // text of the error; "" for a good answer
	}{
		"nothing":                          {lane: waitingLane("qqq")},
		"an empty run":                     {waitingLane("qqq"), []batch.Run{{}}, ""},
		"an empty lane":                    {lane: waitingLane("")},
		"the first":                        {waitingLane("qqq"), []batch.Run{{0}}, ""},
		"all in one run":                   {waitingLane("qqq"), []batch.Run{{0, 1, 2}}, ""},
		"not the first":                    {waitingLane("qqq"), []batch.Run{{1}}, "position 1 passes 0"},
		"a gap in a run":                   {waitingLane("qqq"), []batch.Run{{0, 2}}, "position 2 passes 1"},
		"two runs of one lane":             {waitingLane("qqq"), []batch.Run{{0}, {1}}, "position 1 passes 0"},
		"behind one that waits":            {waitingLane("nq"), []batch.Run{{1}}, "position 1 passes 0"},
		"behind a pending one":             {waitingLane("pq"), []batch.Run{{1}}, "position 1 passes 0"},
		"behind a submitting one":          {waitingLane("sq"), []batch.Run{{1}}, "position 1 passes 0"},
		"before a submitting one":          {waitingLane("qs"), []batch.Run{{0}}, "position 0 passes 1"},
		"before a pending one":             {waitingLane("qp"), []batch.Run{{0}}, "position 0 passes 1"},
		"before a valid one":               {waitingLane("qv"), []batch.Run{{0}}, "position 0 passes 1"},
		"before an invalid one":            {waitingLane("qi"), []batch.Run{{0}}, "position 0 passes 1"},
		"negative":                         {waitingLane("q"), []batch.Run{{-1}}, "position -1 of 1"},
		"past the end":                     {waitingLane("q"), []batch.Run{{1}}, "position 1 of 1"},
		"in an empty lane":                 {waitingLane(""), []batch.Run{{0}}, "position 0 of 0"},
		"descending":                       {waitingLane("qq"), []batch.Run{{1, 0}}, "position 0 after 1"},
		"twice in a run":                   {waitingLane("qq"), []batch.Run{{0, 0}}, "position 0 after 0"},
		"twice in two runs":                {waitingLane("qq"), []batch.Run{{0}, {0}}, "position 0 twice"},
		"one that is not ready":            {waitingLane("nq"), []batch.Run{{0}}, "position 0 is queued and not ready"},
		"one that is under way":            {waitingLane("s"), []batch.Run{{0}}, "position 0 is submitting and not ready"},
		"ready, and not claimable":         {waitingLane("r"), []batch.Run{{0}}, "position 0 is valid and not ready"},
		"apart, in two runs":               {waitingLane("qqq", apart...), []batch.Run{{0}, {1}, {2}}, ""},
		"apart, only the last":             {waitingLane("qqq", apart...), []batch.Run{{2}}, ""},
		"apart, behind submitting":         {waitingLane("sqq", apart...), []batch.Run{{1}}, ""},
		"apart, before submitting":         {waitingLane("qqs", apart...), []batch.Run{{0, 1}}, ""},
		"apart, behind pending":            {waitingLane("pqq", apart...), []batch.Run{{2}}, ""},
		"conflict in two runs":             {waitingLane("qq", writesFootprint("00"), writesFootprint("0011")), []batch.Run{{0}, {1}}, "position 1 passes 0"},
		"conflict in one run":              {waitingLane("qq", writesFootprint("00"), writesFootprint("0011")), []batch.Run{{0, 1}}, ""},
		"conflict with one behind":         {waitingLane("qqq", writesFootprint("00"), writesFootprint("11"), writesFootprint("00")), []batch.Run{{0}, {1}}, ""},
		"blocked by one that stays":        {waitingLane("qqq", writesFootprint("00"), writesFootprint("11"), writesFootprint("00")), []batch.Run{{2}}, "position 2 passes 0"},
		"two that read":                    {waitingLane("qq", readsFootprint("00"), readsFootprint("00")), []batch.Run{{0}, {1}}, ""},
		"kept, behind accepted ones":       {laneCopy(waitingLane("pvq")), []batch.Run{{2}}, ""},
		"kept, a run behind them":          {laneCopy(waitingLane("pvqq")), []batch.Run{{2, 3}}, ""},
		"kept, two runs behind them":       {laneCopy(waitingLane("pqq")), []batch.Run{{1}, {2}}, "position 2 passes 1"},
		"kept, behind a submitting one":    {laneCopy(waitingLane("psq")), []batch.Run{{2}}, "position 2 passes 1"},
		"kept, before a submitting one":    {laneCopy(waitingLane("pqs")), []batch.Run{{1}}, "position 1 passes 2"},
		"kept, behind an invalid one":      {laneCopy(waitingLane("piq")), []batch.Run{{2}}, "position 2 passes 1"},
		"kept, behind one that waits":      {laneCopy(waitingLane("pnq")), []batch.Run{{2}}, "position 2 passes 1"},
		"kept, behind one that stays":      {laneCopy(waitingLane("pqq")), []batch.Run{{2}}, "position 2 passes 1"},
		"kept, an accepted one":            {laneCopy(waitingLane("p")), []batch.Run{{0}}, "position 0 is pending and not ready"},
		"kept, it would follow a pending":  {laneCopy(waitingLane("qp")), []batch.Run{{0}}, "position 0 would follow"},
		"kept, it would follow a valid":    {laneCopy(waitingLane("pqv")), []batch.Run{{1}}, "position 1 would follow"},
		"kept, it would follow an invalid": {laneCopy(waitingLane("qi")), []batch.Run{{0}}, "position 0 passes 1"},
		"kept, the second would follow":    {laneCopy(waitingLane("qqp", writesFootprint("00"), writesFootprint("11"), writesFootprint("11"))), []batch.Run{{0}, {1}}, "position 1 would follow"},
		"kept, apart from a later one":     {laneCopy(waitingLane("qqp", writesFootprint("00"), writesFootprint("00"), writesFootprint("11"))), []batch.Run{{0, 1}}, ""},
		"kept, a lost one follows":         {laneCopy(waitingLane("pu")), []batch.Run{{1}}, "position 1 was lost or failed"},
		"kept, a failed one follows":       {laneCopy(waitingLane("pqfq")), []batch.Run{{1, 2, 3}}, "position 2 was lost or failed"},
		"kept, a failed one leads":         {laneCopy(waitingLane("fqu")), []batch.Run{{0, 1, 2}}, ""},
		"kept, a failed one apart":         {laneCopy(waitingLane("pf", writesFootprint("00"), writesFootprint("11"))), []batch.Run{{1}}, ""},
		"kept, a failed one stays":         {laneCopy(waitingLane("pqf")), []batch.Run{{1}}, ""},
		"no footprint blocks":              {waitingLane("qq", batch.Footprint{}, writesFootprint("00")), []batch.Run{{1}}, "position 1 passes 0"},
	} {
		err := c.lane.Check(c.runs)
		if c.wantErr == "" {
			assert.NoError(t, err, name)
			continue
		}
		assert.ErrorContains(t, err, c.wantErr, name)
	}
}
