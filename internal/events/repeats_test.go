package events

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// reportBook keeps the reports, with their times.
type reportBook struct {
	begin time.Time
	mu    sync.Mutex
	lines []string
}

func (b *reportBook) addReport(s summary[string]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	over := ""
	if s.isLast {
		over = ", over"
	}
	b.lines = append(b.lines, fmt.Sprintf("%s: %s, %d times for %s%s", time.Since(b.begin), s.last, s.count, s.span, over))
}

func (b *reportBook) takeLines() (lines []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines, b.lines = b.lines, nil
	return lines
}

func newReportBook(most int) (*reportBook, *repetitions[string, string]) {
	b := &reportBook{begin: time.Now()}
	return b, newRepeats[string](time.Minute, most, b.addReport)
}

// The caller reports the first event. Later ones are one line a minute, and one line when they are
// over.
func TestRepeatsAreSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newReportBook(9)
		firsts := 0
		for i := range 20 {
			if l.note("k", fmt.Sprint("no ", i)) {
				firsts++
			}
			time.Sleep(7 * time.Second)
		}
		synctest.Wait()
		assert.Equal(t, 1, firsts)
		assert.Equal(t, []string{"1m0s: no 8, 8 times for 1m0s", "2m0s: no 17, 9 times for 2m0s"}, b.takeLines())
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"3m0s: no 19, 2 times for 3m0s", "4m0s: no 19, 20 times for 2m13s, over"}, b.takeLines())
		assert.True(t, l.note("k", "anew"))
		l.reportAll()
		assert.Empty(t, b.takeLines(), "the caller has said it")
	})
}

// An event that happens once is one line, which the caller writes. Keys are counted separately,
// each with its own minute.
func TestRepeatsByKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newReportBook(9)
		assert.True(t, l.note("once", "once"))
		time.Sleep(10 * time.Second)
		for range 3 {
			l.note("a", "a")
		}
		time.Sleep(10 * time.Second)
		for range 5 {
			l.note("b", "b")
		}
		time.Sleep(time.Hour)
		assert.Equal(t, []string{
			"1m10s: a, 2 times for 1m0s", "1m20s: b, 4 times for 1m0s", "2m10s: a, 3 times for 0s, over", "2m20s: b, 5 times for 0s, over",
		}, b.takeLines())
	})
}

// At the end all sums are reported that were not yet, and no timer is left that would report
// later.
func TestRepeatsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newReportBook(9)
		l.reportAll()
		l.note("b", "b")
		time.Sleep(time.Second)
		for range 4 {
			l.note("a", "a")
			l.note("b", "b")
		}
		time.Sleep(time.Second)
		l.reportAll()
		assert.Equal(t, []string{"2s: b, 4 times for 2s", "2s: a, 3 times for 1s"}, b.takeLines())
		time.Sleep(time.Hour)
		l.reportAll()
		assert.Empty(t, b.takeLines())
		assert.True(t, l.note("a", "a"), "begins anew")
		l.note("a", "a")
		time.Sleep(time.Hour)
		assert.Len(t, b.takeLines(), 2)
	})
}

// If there are too many keys, an event under a further key is always new: a line too many is
// better than none.
func TestRepeatsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newReportBook(2)
		for range 2 {
			l.note("a", "a")
			l.note("b", "b")
			assert.True(t, l.note("c", "c"))
		}
		time.Sleep(time.Hour)
		assert.Len(t, b.takeLines(), 4)
		assert.True(t, l.note("c", "c"))
		assert.False(t, l.note("c", "c"))
		l.reportAll()
	})
}
