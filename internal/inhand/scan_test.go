package inhand_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/store"
)

// scan gives the table rows of a scan, and sends what Scanned returns.
func (r *tableTest) scan(ids ...string) <-chan []store.Due {
	var rows []store.InFlight
	for i, id := range ids {
		rows = append(rows, store.InFlight{Ref: store.Ref{Key: key(id), Row: int64(i)}, Version: 3, State: batch.Submitting})
	}
	back := make(chan []store.Due, 1)
	go func() { back <- r.Scanned(rows, time.Now(), false) }()
	synctest.Wait()
	return back
}

// answerWithoutHand makes requests find no free hand or, if hanging is true, none within their
// group's share.
func (r *tableTest) answerWithoutHand(hanging bool) {
	r.setAnswer(func(all []inhand.Question) {
		var answers []inhand.Answer
		for i := range all {
			answers = append(answers, inhand.Answer{Question: &all[i], Kind: inhand.NotAsked, NextIn: 100 * time.Millisecond, NoHand: !hanging})
		}
		due, _ := r.Asked(answers)
		assert.Empty(r.t, due)
	})
}

// The rows of a scan are asked about in their order. The scan waits until there was a hand for
// each.
func TestAScanWaitsForHands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.answerWithoutHand(false)
		back := r.scan("c", "a", "b")
		assert.Equal(t, []string{"0s: c, a, b"}, r.takeList(&r.askedLists))
		assert.Empty(t, back)
		time.Sleep(50 * time.Millisecond)
		r.setAnswer(nil)
		r.HandsFree(1)
		synctest.Wait()
		assert.Len(t, r.takeList(&r.askedLists), 1)
		assert.Empty(t, <-back)
		r.HandsFree(1)
		time.Sleep(time.Second)
		assert.Empty(t, r.takeList(&r.askedLists), "they were asked about")
		r.stop()
	})
}

// Rows whose group has used up its share of the hands are given back to the store, so that a scan
// of other rows does not wait for them.
func TestAScanHandsBackWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.answerWithoutHand(true)
		all := <-r.scan("a", "b")
		assert.Equal(t, []store.Due{
			{Ref: store.Ref{Key: key("a")}, In: 100 * time.Millisecond},
			{Ref: store.Ref{Key: key("b"), Row: 1}, In: 100 * time.Millisecond},
		}, all)
		time.Sleep(time.Second)
		assert.Len(t, r.takeList(&r.askedLists), 1, "they are not asked about again")
		r.stop()
	})
}

// A stop gives back all rows that wait for a hand, and the rows of a later scan.
func TestAScanThatIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.answerWithoutHand(false)
		back := r.scan("a", "b")
		r.stop()
		want := []store.Due{{Ref: store.Ref{Key: key("a")}}, {Ref: store.Ref{Key: key("b"), Row: 1}}}
		assert.Equal(t, want, <-back)
		assert.Equal(t, want, <-r.scan("a", "b"))
	})
}

// The row of a scan is asked about, whatever event happens to the batch meanwhile.
func TestAScanThatMeetsAnotherEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.answerWithoutHand(false)
		r.openBatch("a")
		back := r.scan("a")
		r.setAnswer(nil)
		r.claimAll("a")
		assert.Empty(t, <-back)
		r.stop()
	})
}

// No request asks about a batch twice. A row that was just read from the store replaces the row in
// hand, and of two scans the later one counts.
func TestAScanOfWhatIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.openBatch("a")
		time.Sleep(firstPoll)
		assert.Len(t, r.takeList(&r.askedLists), 1)
		r.Asked([]inhand.Answer{answerTo(key("a"), inhand.StateSame)}) // the row is due again at once
		assert.Empty(t, <-r.scan("a"))
		for _, asks := range r.takeList(&r.askedLists) {
			assert.NotContains(t, asks, "a, a")
		}
		assert.Equal(t, batch.Submitting, r.asked[len(r.asked)-1].Row.State)

		r.answerWithoutHand(false)
		older := r.scan("b")
		newer := r.scan("b")
		assert.Empty(t, <-older)
		r.setAnswer(nil)
		time.Sleep(100 * time.Millisecond)
		assert.Empty(t, <-newer)
		r.stop()
	})
}

// The ledger's answer about a row of a scan sets the row's check in the store. The exception is a
// row that an event brought, if its check is near and no later than the next question.
func TestWhenARowOfAScanIsDueAgain(t *testing.T) {
	for _, c := range []struct {
		name                 string
		isByEvent, setsCheck bool
		checkIn, next        time.Duration
		kind                 inhand.EventKind
	}{
		{"a poll", false, true, pollInterval, pollInterval, inhand.StateSame},
		{"an event long before the poll", true, false, pollInterval, pollInterval, inhand.StateSame},
		{"an event, and the poll is near", true, true, pollInterval / 2, pollInterval, inhand.StateSame},
		{"an event, and a question is due sooner", true, true, pollInterval, pollInterval / 2, inhand.StateSame},
		{"evidence without a hand", true, true, pollInterval, pollInterval, inhand.LeftToScan},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, nil)
				row := store.InFlight{Ref: store.Ref{Key: key("a"), Row: 7}, Version: 3, State: batch.Pending, CheckIn: c.checkIn}
				assert.Empty(t, r.Scanned([]store.InFlight{row}, time.Now(), c.isByEvent))
				synctest.Wait()
				q := r.asked[0]
				due, _ := r.Asked([]inhand.Answer{{Question: &q, Kind: c.kind, NextIn: c.next}})
				if c.setsCheck {
					assert.Equal(t, []store.Due{{Ref: row.Ref, In: c.next}}, due)
				} else {
					assert.Empty(t, due)
				}
				r.stop()
			})
		})
	}
}

// An event reads a row from the store while a scan, which has leased the row, still waits for a
// hand. The answer sets the check, because otherwise no process would ask again before the lease
// ends.
func TestAnEventTakesOverTheRowOfAScan(t *testing.T) {
	for _, first := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, nil)
			r.answerWithoutHand(false)
			row := store.InFlight{Ref: store.Ref{Key: key("a")}, Version: 3, State: batch.Pending, CheckIn: 30 * pollInterval}
			for _, byEvent := range []bool{!first, first} {
				go r.Scanned([]store.InFlight{row}, time.Now(), byEvent)
				synctest.Wait()
			}
			r.setAnswer(nil)
			r.HandsFree(1)
			synctest.Wait()
			q := r.asked[len(r.asked)-1]
			due, _ := r.Asked([]inhand.Answer{{Question: &q, Kind: inhand.StateSame, NextIn: pollInterval}})
			assert.Equal(t, []store.Due{{Ref: row.Ref, In: pollInterval}}, due)
			r.stop()
		})
	}
}
