package recall

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

var (
	start = time.Unix(1_000_000, 0)
	key   = batch.Key{Service: "s", ID: "b"}
)

func claimOf(attempt int, prepared string, requeued bool) store.Claim {
	c := store.Claim{Ref: store.Ref{Key: key}, Attempt: attempt, Was: &store.Row{Attempt: attempt, Requeued: requeued}}
	if prepared != "" {
		c.Prepared = []byte(prepared)
	}
	return c
}

// TestJudge has the claims that prove that the database has forgotten something.
func TestJudge(t *testing.T) {
	posted := func(attempt int, kept string) func(*Batches) {
		return func(m *Batches) {
			m.Claimed(claimOf(attempt, "", false), start)
			if kept != "" {
				m.Kept(store.Prepared{Ref: store.Ref{Key: key}, Bytes: []byte(kept)}, start)
			}
		}
	}
	written := func(o store.Outcome, row store.Row) func(*Batches) {
		return func(m *Batches) {
			o.Key = key
			m.Written(o, row, start)
		}
	}
	ended := written(store.Outcome{Finding: store.IsCommitted}, store.Row{State: batch.Committed, Attempt: 1, FinalAt: start})
	seen := func(attempt int, kept string) func(*Batches) {
		return func(m *Batches) {
			m.Seen(store.InFlight{Ref: store.Ref{Key: key}, Attempt: attempt, Prepared: []byte(kept), Age: time.Minute}, start)
		}
	}
	requeued := func(m *Batches) {
		m.Seen(store.InFlight{Ref: store.Ref{Key: key}, Attempt: 2, Requeued: true, Age: time.Minute}, start)
	}
	for _, c := range []struct {
		name  string
		known []func(*Batches)
		claim store.Claim
		want  *Forgotten
	}{
		{"nothing is known", nil, claimOf(1, "", false), nil},
		{"the next attempt", []func(*Batches){posted(1, "")}, claimOf(2, "", false), nil},
		{"the same attempt", []func(*Batches){posted(1, "")}, claimOf(1, "", false), &Forgotten{Attempt: 1}},
		{"an earlier attempt", []func(*Batches){posted(3, "")}, claimOf(2, "", false), &Forgotten{Attempt: 3}},
		{"an attempt of another process", []func(*Batches){seen(1, "")}, claimOf(1, "", false), &Forgotten{Attempt: 1}},
		{"it was final", []func(*Batches){posted(1, ""), ended}, claimOf(2, "", false), &Forgotten{Attempt: 1, Final: true}},
		{
			"it was final, and another process has attempted it since", []func(*Batches){posted(1, ""), ended, seen(2, "")},
			claimOf(3, "", false), &Forgotten{Attempt: 1, Final: true},
		},
		{"it was final, and another process has attempted it since a requeue", []func(*Batches){posted(1, "x"), ended, requeued}, claimOf(3, "", true), nil},
		{"it was final, and requeued", []func(*Batches){posted(1, "x"), ended}, claimOf(2, "", true), nil},
		{"the kept bytes are gone", []func(*Batches){posted(1, "bytes")}, claimOf(2, "", false), &Forgotten{Attempt: 1, Prepared: []byte("bytes")}},
		{"some of them are gone", []func(*Batches){seen(1, "bytes")}, claimOf(2, "by", false), &Forgotten{Attempt: 1, Prepared: []byte("bytes")}},
		{"they have grown", []func(*Batches){posted(1, "bytes")}, claimOf(2, "bytes2", false), nil},
		{"other bytes, after a void by another process", []func(*Batches){posted(1, "bytes")}, claimOf(3, "new", false), nil},
		{"other bytes of an attempt that is known", []func(*Batches){posted(2, "bytes")}, claimOf(2, "old", false), &Forgotten{Attempt: 2, OtherBytes: true}},
		{
			"void", []func(*Batches){posted(1, "bytes"), written(store.Outcome{Finding: store.IsVoid}, store.Row{Attempt: 1})},
			claimOf(2, "", false), nil,
		},
		{
			"the database knows of the doubt again", []func(*Batches){posted(3, ""), written(store.Outcome{Finding: store.Doubtful, ForgottenFor: 1}, store.Row{Attempt: 1})},
			claimOf(2, "", false), nil,
		},
		{
			"another outcome does not lower the attempt", []func(*Batches){posted(3, ""), written(store.Outcome{Finding: store.NoTrace}, store.Row{Attempt: 1})},
			claimOf(2, "", false), &Forgotten{Attempt: 3},
		},
	} {
		m := New(DefaultBytes)
		for _, f := range c.known {
			f(m)
		}
		got := m.Judge(c.claim, start.Add(time.Hour))
		if c.want == nil {
			assert.Nil(t, got, c.name)
			continue
		}
		require.NotNil(t, got, c.name)
		assert.GreaterOrEqual(t, got.Age, time.Hour, c.name)
		got.Age = 0
		assert.Equal(t, c.want, got, c.name)
	}
}

// TestTheFirstAttemptIsTheOldestThatIsKnown: another process attempted the batch an hour before
// this one claimed it, and this one reads that only later. The doubt is as old as the other
// process's attempt.
func TestTheFirstAttemptIsTheOldestThatIsKnown(t *testing.T) {
	c := claimOf(2, "", false)
	m := New(DefaultBytes)
	m.Claimed(c, start)
	m.Seen(store.InFlight{Ref: store.Ref{Key: c.Key}, Attempt: 2, PostedAgo: time.Minute, Age: time.Hour}, start.Add(time.Minute))
	m.Seen(store.InFlight{Ref: store.Ref{Key: c.Key}, Attempt: 2, PostedAgo: 2 * time.Minute}, start.Add(2*time.Minute)) // reads a younger attempt
	got := m.Judge(claimOf(1, "", false), start.Add(2*time.Minute))
	require.NotNil(t, got)
	assert.Equal(t, time.Hour+time.Minute, got.Age)
}

// TestTheMemoryIsBounded fills the memory with many batches, and with large ones. The batches that
// were mentioned last are kept.
func TestTheMemoryIsBounded(t *testing.T) {
	for _, size := range []int{0, 1000} {
		m := New(1 << 20)
		for i := range 100_000 {
			c := claimOf(1, "", false)
			c.Key.ID = batch.ID(fmt.Sprint(i))
			c.Prepared = make([]byte, size)
			m.Claimed(c, start)
			require.NotNil(t, m.Judge(c, start))
			if len(m.young) > 2 {
				first := c
				first.Key.ID = batch.ID(fmt.Sprint(i - 1))
				require.NotNil(t, m.Judge(first, start), "the one before")
			}
		}
		bytes := 0
		for _, g := range []map[uint64]entry{m.young, m.old} {
			for _, e := range g {
				bytes += entryBytes + cap(e.prepared)
			}
		}
		assert.LessOrEqual(t, bytes, 1<<20)
	}
}
