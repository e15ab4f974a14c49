package splinter

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// testJournal is a journal that fails while down is true.
type testJournal struct {
	isDown  bool
	entries []batch.StreamEntry
}

func (n *testJournal) LeaseStream(context.Context, string, string, time.Duration) (int64, bool, error) {
	return 1, true, nil
}

func (n *testJournal) AppendStream(_ context.Context, e batch.StreamEntry) (bool, error) {
	if n.isDown {
		return false, errors.New("the journal is down")
	}
	n.entries = append(n.entries, e)
	return true, nil
}

func (n *testJournal) FindStream(context.Context, string, []string) (batch.StreamFound, error) {
	return batch.StreamFound{}, nil
}

func newTestLogWriter(j *testJournal) (*logWriter, *prober) {
	c := &Client{options: Options{Journal: j, ClockMargin: time.Second, StreamLease: time.Minute, ProbeInterval: time.Second}}
	return &logWriter{client: c, service: "c::s", stream: "s"}, &prober{}
}

// When a journal fails for too long, the writer drops ids. The span then begins anew after them: a
// span that covers ids which are not in it would prove that they were not committed.
func TestALogThatDropsIDsBeginsANewSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &testJournal{}
		l, p := newTestLogWriter(j)
		l.open(t.Context(), time.Now())
		l.add("first")
		l.renewAndWrite(t.Context(), p)
		require.Len(t, j.entries, 1)
		j.isDown = true
		for i := range maxUnwritten + 1 {
			l.add(fmt.Sprint("dropped ", i))
		}
		dropped := time.Now()
		l.renewAndWrite(t.Context(), p)
		time.Sleep(10 * time.Second)
		l.add("later")
		j.isDown = false
		p.settledUntil = time.Now()
		l.renewAndWrite(t.Context(), p)
		require.Greater(t, len(j.entries), 1)
		begun := j.entries[1]
		assert.True(t, begun.Restart)
		assert.LessOrEqual(t, begun.Age, time.Since(dropped))
		var ids []string
		for _, e := range j.entries[1:] {
			ids = append(ids, e.IDs...)
		}
		assert.Equal(t, []string{"later"}, ids)
	})
}

// If there are more ids than one entry takes, they are written in several entries. Until the last
// of them is written, the log ends where it did before: otherwise a process that reads it in
// between would have a proof against ids that are not in it yet.
func TestALogGrowsOnlyWithTheLastOfItsIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &testJournal{}
		l, p := newTestLogWriter(j)
		l.open(t.Context(), time.Now())
		l.renewAndWrite(t.Context(), p)
		require.Len(t, j.entries, 1)
		for i := range 2*maxEntry + 1 {
			l.add(fmt.Sprint("id ", i))
		}
		time.Sleep(10 * time.Second)
		p.settledUntil = time.Now()
		l.renewAndWrite(t.Context(), p)
		require.Len(t, j.entries, 4)
		for i, e := range j.entries[1:] {
			assert.False(t, e.Restart)
			if i < 2 {
				assert.Len(t, e.IDs, maxEntry)
				assert.Equal(t, 10*time.Second, e.Age, "entry %d", i)
				continue
			}
			assert.Len(t, e.IDs, 1)
			assert.Zero(t, e.Age)
		}
	})
}

// When a stream is opened again, the service repeats old events. The log has each id once.
func TestALogHasARepeatedIDOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &testJournal{}
		l, p := newTestLogWriter(j)
		l.open(t.Context(), time.Now())
		var ids []string
		for _, id := range []string{"one", "one", "two"} {
			l.add(id)
			l.renewAndWrite(t.Context(), p)
		}
		for _, e := range j.entries {
			ids = append(ids, e.IDs...)
		}
		assert.Equal(t, []string{"one", "two"}, ids)
	})
}

// afterSleep returns t as a machine sees it that slept for d since then: its monotonic clock has
// stopped for d.
func afterSleep(t time.Time, d time.Duration) time.Time {
	t = t.Add(-d)
	// The second word of a time.Time with a monotonic reading is that reading.
	(*struct {
		wall uint64
		ext  int64
	})(unsafe.Pointer(&t)).ext += int64(d)
	return t
}

// A machine that sleeps receives no events: the log ends when the machine fell asleep.
func TestALogEndsWhenTheMachineFallsAsleep(t *testing.T) {
	j := &testJournal{}
	l, p := newTestLogWriter(j)
	l.open(t.Context(), time.Now())
	l.renewAndWrite(t.Context(), p)
	const sleep = time.Hour
	p.settledUntil = afterSleep(time.Now(), sleep)
	require.Less(t, time.Since(p.settledUntil), time.Minute, "the monotonic clock stood still")
	l.coveredUntil, l.writtenUntil = p.settledUntil, afterSleep(time.Now().Add(-time.Second), sleep)
	l.add("before")
	l.renewAndWrite(t.Context(), p)
	require.Len(t, j.entries, 2)
	assert.GreaterOrEqual(t, j.entries[1].Age, sleep)
}
