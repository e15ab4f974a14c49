package batch_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
)

func fp(writes ...string) batch.Footprint { return batch.Footprint{Writes: writes} }

func reads(prefixes ...string) batch.Footprint { return batch.Footprint{Reads: prefixes} }

// waiting makes a lane with one batch for each letter: q queued and ready, n queued and not ready,
// s submitting, p pending, v valid, i invalid, u unknown and ready, f failed and ready.
func waiting(states string, footprints ...batch.Footprint) batch.Lane {
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

// kept returns the lane with KeepsOrder set.
func kept(l batch.Lane) batch.Lane {
	l.KeepsOrder = true
	return l
}

func TestLaneCheck(t *testing.T) {
	apart := []batch.Footprint{fp("00"), fp("11"), fp("22")}
	for name, c := range map[string]struct {
		lane batch.Lane
		runs []batch.Run
		bad  string // text of the error; "" for a good answer
	}{
		"nothing":                          {lane: waiting("qqq")},
		"an empty run":                     {waiting("qqq"), []batch.Run{{}}, ""},
		"an empty lane":                    {lane: waiting("")},
		"the first":                        {waiting("qqq"), []batch.Run{{0}}, ""},
		"all in one run":                   {waiting("qqq"), []batch.Run{{0, 1, 2}}, ""},
		"not the first":                    {waiting("qqq"), []batch.Run{{1}}, "position 1 passes 0"},
		"a gap in a run":                   {waiting("qqq"), []batch.Run{{0, 2}}, "position 2 passes 1"},
		"two runs of one lane":             {waiting("qqq"), []batch.Run{{0}, {1}}, "position 1 passes 0"},
		"behind one that waits":            {waiting("nq"), []batch.Run{{1}}, "position 1 passes 0"},
		"behind a pending one":             {waiting("pq"), []batch.Run{{1}}, "position 1 passes 0"},
		"behind a submitting one":          {waiting("sq"), []batch.Run{{1}}, "position 1 passes 0"},
		"before a submitting one":          {waiting("qs"), []batch.Run{{0}}, "position 0 passes 1"},
		"before a pending one":             {waiting("qp"), []batch.Run{{0}}, "position 0 passes 1"},
		"before a valid one":               {waiting("qv"), []batch.Run{{0}}, "position 0 passes 1"},
		"before an invalid one":            {waiting("qi"), []batch.Run{{0}}, "position 0 passes 1"},
		"negative":                         {waiting("q"), []batch.Run{{-1}}, "position -1 of 1"},
		"past the end":                     {waiting("q"), []batch.Run{{1}}, "position 1 of 1"},
		"in an empty lane":                 {waiting(""), []batch.Run{{0}}, "position 0 of 0"},
		"descending":                       {waiting("qq"), []batch.Run{{1, 0}}, "position 0 after 1"},
		"twice in a run":                   {waiting("qq"), []batch.Run{{0, 0}}, "position 0 after 0"},
		"twice in two runs":                {waiting("qq"), []batch.Run{{0}, {0}}, "position 0 twice"},
		"one that is not ready":            {waiting("nq"), []batch.Run{{0}}, "position 0 is queued and not ready"},
		"one that is under way":            {waiting("s"), []batch.Run{{0}}, "position 0 is submitting and not ready"},
		"ready, and not claimable":         {waiting("r"), []batch.Run{{0}}, "position 0 is valid and not ready"},
		"apart, in two runs":               {waiting("qqq", apart...), []batch.Run{{0}, {1}, {2}}, ""},
		"apart, only the last":             {waiting("qqq", apart...), []batch.Run{{2}}, ""},
		"apart, behind submitting":         {waiting("sqq", apart...), []batch.Run{{1}}, ""},
		"apart, before submitting":         {waiting("qqs", apart...), []batch.Run{{0, 1}}, ""},
		"apart, behind pending":            {waiting("pqq", apart...), []batch.Run{{2}}, ""},
		"conflict in two runs":             {waiting("qq", fp("00"), fp("0011")), []batch.Run{{0}, {1}}, "position 1 passes 0"},
		"conflict in one run":              {waiting("qq", fp("00"), fp("0011")), []batch.Run{{0, 1}}, ""},
		"conflict with one behind":         {waiting("qqq", fp("00"), fp("11"), fp("00")), []batch.Run{{0}, {1}}, ""},
		"blocked by one that stays":        {waiting("qqq", fp("00"), fp("11"), fp("00")), []batch.Run{{2}}, "position 2 passes 0"},
		"two that read":                    {waiting("qq", reads("00"), reads("00")), []batch.Run{{0}, {1}}, ""},
		"kept, behind accepted ones":       {kept(waiting("pvq")), []batch.Run{{2}}, ""},
		"kept, a run behind them":          {kept(waiting("pvqq")), []batch.Run{{2, 3}}, ""},
		"kept, two runs behind them":       {kept(waiting("pqq")), []batch.Run{{1}, {2}}, "position 2 passes 1"},
		"kept, behind a submitting one":    {kept(waiting("psq")), []batch.Run{{2}}, "position 2 passes 1"},
		"kept, before a submitting one":    {kept(waiting("pqs")), []batch.Run{{1}}, "position 1 passes 2"},
		"kept, behind an invalid one":      {kept(waiting("piq")), []batch.Run{{2}}, "position 2 passes 1"},
		"kept, behind one that waits":      {kept(waiting("pnq")), []batch.Run{{2}}, "position 2 passes 1"},
		"kept, behind one that stays":      {kept(waiting("pqq")), []batch.Run{{2}}, "position 2 passes 1"},
		"kept, an accepted one":            {kept(waiting("p")), []batch.Run{{0}}, "position 0 is pending and not ready"},
		"kept, it would follow a pending":  {kept(waiting("qp")), []batch.Run{{0}}, "position 0 would follow"},
		"kept, it would follow a valid":    {kept(waiting("pqv")), []batch.Run{{1}}, "position 1 would follow"},
		"kept, it would follow an invalid": {kept(waiting("qi")), []batch.Run{{0}}, "position 0 passes 1"},
		"kept, the second would follow":    {kept(waiting("qqp", fp("00"), fp("11"), fp("11"))), []batch.Run{{0}, {1}}, "position 1 would follow"},
		"kept, apart from a later one":     {kept(waiting("qqp", fp("00"), fp("00"), fp("11"))), []batch.Run{{0, 1}}, ""},
		"kept, a lost one follows":         {kept(waiting("pu")), []batch.Run{{1}}, "position 1 was lost or failed"},
		"kept, a failed one follows":       {kept(waiting("pqfq")), []batch.Run{{1, 2, 3}}, "position 2 was lost or failed"},
		"kept, a failed one leads":         {kept(waiting("fqu")), []batch.Run{{0, 1, 2}}, ""},
		"kept, a failed one apart":         {kept(waiting("pf", fp("00"), fp("11"))), []batch.Run{{1}}, ""},
		"kept, a failed one stays":         {kept(waiting("pqf")), []batch.Run{{1}}, ""},
		"no footprint blocks":              {waiting("qq", batch.Footprint{}, fp("00")), []batch.Run{{1}}, "position 1 passes 0"},
	} {
		err := c.lane.Check(c.runs)
		if c.bad == "" {
			assert.NoError(t, err, name)
			continue
		}
		assert.ErrorContains(t, err, c.bad, name)
	}
}
