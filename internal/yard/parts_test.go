package main

import (
	"context"
	"encoding/binary"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// An open stream carries every commit.
func TestTheFakeLedgerStreams(t *testing.T) {
	s := httptest.NewServer(newFakeLedger())
	defer s.Close()
	c := newClient(s.URL, 4)
	defer c.close()
	w := newWork(1, 50, 2, 1, 200)
	ctx, stop := context.WithCancel(t.Context())
	var ids []batch.ID
	err := (&withEvents{&fake{c, w}}).Events(ctx, nil, func(e dlt.Event) error {
		if e.Live {
			go func() {
				for _, b := range w.batches {
					_ = c.post(ctx, "/batches", b.Payload) // a failed POST fails the test later
				}
			}()
		}
		for _, st := range e.Statuses {
			ids = append(ids, st.ID)
		}
		if len(ids) == len(w.batches) {
			stop()
		}
		return nil
	})
	require.NoError(t, err)
	for i, b := range w.batches {
		require.Equal(t, b.ID, ids[i])
	}
}

// message is a message of PostgreSQL's protocol; the first has no letter.
func message(letter string, body int) []byte {
	b := binary.BigEndian.AppendUint32([]byte(letter), uint32(4+body))
	return append(b, make([]byte, body)...)
}

func TestWireCountsStatementsHoweverTheyAreCut(t *testing.T) {
	var all []byte
	for _, m := range []struct {
		letter string
		body   int
	}{{"", 30}, {"Q", 6}, {"P", 40}, {"B", 1000}, {"D", 2}, {"E", 5}, {"S", 0}, {"Q", 20}, {"d", 100_000}, {"c", 0}, {"E", 5}, {"E", 5}, {"S", 0}} {
		all = append(all, message(m.letter, m.body)...)
	}
	for _, cut := range []int{1, 3, 7, 4096, len(all)} {
		w := &wire{}
		c := &wireConn{wire: w, need: 4}
		for rest := all; len(rest) > 0; {
			n := min(cut, len(rest))
			c.count(rest[:n])
			rest = rest[n:]
		}
		require.EqualValues(t, 5, w.statements.Load(), "cut in %d", cut)
		require.EqualValues(t, 5, w.trips.Load(), "cut in %d", cut)
	}
}

func TestTheFakeLedgerNoticesWhatIsTwiceOrOutOfOrder(t *testing.T) {
	s := httptest.NewServer(newFakeLedger())
	defer s.Close()
	c := newClient(s.URL, 1)
	defer c.close()
	w := newWork(1, 6, 2, 1, 200)
	for _, i := range []int{0, 1, 2, 3, 5, 4, 4} { // lane 1 has 1, 3, 5, lane 0 has 0, 2, 4
		require.NoError(t, c.post(t.Context(), "/batches", w.batches[i].Payload))
	}
	answers, err := c.statuses(t.Context(), []string{string(w.batches[3].ID), strings.Repeat("f", idLen)})
	require.NoError(t, err)
	require.Equal(t, []answer{{string(w.batches[3].ID), wordCommitted}, {strings.Repeat("f", idLen), wordUnknown}}, answers)
	got, err := c.reset(t.Context(), time.Hour)
	require.NoError(t, err)
	require.Equal(t, tally{Posts: 7, Asks: 1, Batches: 6, Twice: 1}, got)

	var list []batch.Attempt
	for _, i := range []int{2, 0} {
		list = append(list, batch.Attempt{Key: w.batches[i].Key(), Payload: w.batches[i].Payload})
	}
	require.NoError(t, (&listing{&fake{c, w}, 2}).SubmitList(t.Context(), list))
	answers, err = c.statuses(t.Context(), []string{string(w.batches[0].ID)})
	require.NoError(t, err)
	require.Equal(t, wordPending, answers[0].Status)
	got, err = c.reset(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, tally{Posts: 1, Asks: 1, Batches: 2, Breaches: 2}, got)
}

func TestWorkIsFoundByItsIDs(t *testing.T) {
	w := newWork(7, 1000, 3, 1, leastSize)
	seen := map[string]bool{}
	for i, b := range w.batches {
		require.Equal(t, i, w.index(string(b.ID)))
		require.NoError(t, b.Validate())
		require.False(t, seen[string(b.ID)])
		seen[string(b.ID)] = true
	}
	require.Nil(t, w.moment("somebody else's"))
}

func TestLanesTakeTurnsWithSeveralTogether(t *testing.T) {
	w := newWork(7, 12, 2, 3, leastSize)
	var lanes, places []int
	for i := range w.batches {
		lane, place := w.lane(i)
		lanes, places = append(lanes, lane), append(places, place)
		require.Equal(t, laneName(lane), w.batches[i].Service)
		if next := w.next(i); next < len(w.batches) {
			l, p := w.lane(next)
			require.Equal(t, lane, l)
			require.Equal(t, place+1, p)
		}
	}
	require.Equal(t, []int{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1}, lanes)
	require.Equal(t, []int{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}, places)
}

func TestWaits(t *testing.T) {
	w := newWork(7, 3, 2, 1, leastSize) // 0 and 2 share a lane
	w.moments = []moments{{1, 2, 10, 15}, {1, 2, 3, 4}, {3, 40, 41, 42}}
	whole, accepted, final := w.waits()
	require.Equal(t, []time.Duration{14, 3, 39}, whole)
	require.Equal(t, []time.Duration{30}, accepted)
	require.Equal(t, []time.Duration{25}, final)
	w.moments[2].added = 20 // its lane was free before: it did not wait
	_, accepted, final = w.waits()
	require.Empty(t, accepted)
	require.Empty(t, final)
}

func TestMedianAndPercentile(t *testing.T) {
	same := func(x float64) float64 { return x }
	require.Zero(t, median(nil, same))
	require.InDelta(t, 2, median([]float64{3, 1, 2}, same), 0)
	require.InDelta(t, 2.5, median([]float64{4, 1, 2, 3}, same), 0)
	require.Zero(t, percentile(nil, 50))
	require.Equal(t, time.Duration(2), percentile([]time.Duration{3, 1, 2}, 50))
	require.Equal(t, time.Duration(3), percentile([]time.Duration{3, 1, 2}, 100))
}

func TestMeterCounts(t *testing.T) {
	m := &meter{ledger: os.Getpid(), postgres: os.Getppid()}
	require.NoError(t, m.start())
	var kept [][]byte
	for range 1000 {
		kept = append(kept, make([]byte, 1000))
	}
	var r result
	require.NoError(t, m.stop(&r, 1000))
	require.Len(t, kept, 1000)
	require.GreaterOrEqual(t, r.Allocs, 1.0)
	require.GreaterOrEqual(t, r.AllocBytes, 1000.0)
	require.Positive(t, r.PeakRSS)
	require.Positive(t, r.Rate)
}

// A group leaves when it is full, or its first has waited; nothing is lost.
func TestGrouped(t *testing.T) {
	in := make(chan *row, 10)
	out := grouped(in, 4)
	for i := range 10 {
		in <- &row{seq: int64(i)}
	}
	var seqs []int64
	for len(seqs) < 10 {
		g := <-out
		require.LessOrEqual(t, len(g), 4)
		for _, x := range g {
			seqs = append(seqs, x.seq)
		}
	}
	require.Equal(t, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, seqs)
	close(in)
	_, open := <-out
	require.False(t, open)
}

// sample is a page with the figures of two modes.
func sample() page {
	var p page
	for _, m := range []string{"pq", "native"} {
		f := figures{Mode: m, Title: m + " & <others>", Machine: "2 cores", Entries: []measured{{Label: floor}, {Label: ours}, {Label: "river tuned"}}}
		for i := range f.Entries {
			for round := range 3 {
				f.Entries[i].add(result{Rate: float64(1000 * (3 - i) * (round + 1)), P50: 7})
			}
		}
		p.put(f)
	}
	return p
}

func TestThePageKeepsWhatIsWrittenByHand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "performance.md")
	before, after := "# By hand\n\n", "\n## Also by hand\n"
	require.NoError(t, os.WriteFile(path, []byte(before+pageBegin+"\nold\n"+pageEnd+after), 0o600))
	p := sample()
	require.NoError(t, p.save(path))
	first, err := os.ReadFile(path)
	require.NoError(t, err)
	text := string(first)
	require.True(t, strings.HasPrefix(text, before))
	require.True(t, strings.HasSuffix(text, after))
	require.NotContains(t, text, "old")
	require.Less(t, strings.Index(text, "### native"), strings.Index(text, "### pq"))
	require.Contains(t, text, "| PostgreSQL with pgx's own pool, Serial over 10,000 lanes, of the floor | ≥ 0.75 | **0.67** |")
	require.Contains(t, text, "| the same, of the tuned job queue | ≥ 2 | 2.00 |")

	// From the files alone the same page is made.
	require.NoError(t, options{docs: path}.remake())
	second, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, text, string(second))

	require.NoError(t, os.WriteFile(path, []byte("no lines"), 0o600))
	require.ErrorContains(t, p.save(path), pageBegin)
}

func TestThePlotIsXML(t *testing.T) {
	d := xml.NewDecoder(strings.NewReader(sample().svg()))
	bars := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "line" {
			bars++
		}
	}
	require.Equal(t, 6, bars)
}

func TestFlagsThatFitNothingAreRefused(t *testing.T) {
	for _, o := range []options{{modes: "nonsense"}, {modes: "sqlite-full", only: river}, {modes: "pgx", docs: "x.md", n: 5}} {
		_, err := o.chosen()
		require.Error(t, err)
	}
	chosen, err := options{modes: "pgx,lanes", n: 5}.chosen()
	require.NoError(t, err)
	require.Len(t, chosen, 2)
	require.Equal(t, 5, chosen[1].entries[0].job.N)
	require.Equal(t, 100, chosen[1].entries[0].job.Lanes)
}

// Every entry that a goal names exists.
func TestGoalsNameEntries(t *testing.T) {
	for _, g := range goals() {
		found := 0
		for _, m := range modes() {
			for _, e := range m.entries {
				if m.name == g.mode && (e.label == g.entry || e.label == g.base) {
					found++
				}
			}
		}
		want := 2
		if g.base == "" {
			want = 1
		}
		require.Equal(t, want, found, g.measure)
	}
}

// With blocks a batch is pending until the end of its block, and its event comes then.
func TestBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLedger()
		l.block.Store(int64(time.Second))
		heard := &listener{more: make(chan struct{}, 1)}
		l.streams.listeners = append(l.streams.listeners, heard)
		time.Sleep(300 * time.Millisecond)
		id, err := l.take(append([]byte(strings.Repeat("a", idLen)), make([]byte, leastSize)...))
		require.NoError(t, err)
		status := func() string {
			w := httptest.NewRecorder()
			l.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/statuses?ids="+id, http.NoBody))
			return w.Body.String()
		}
		time.Sleep(699 * time.Millisecond)
		synctest.Wait()
		assert.Contains(t, status(), wordPending)
		assert.Empty(t, heard.committed)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		assert.Contains(t, status(), wordCommitted)
		assert.Len(t, heard.committed, lineLen)
	})
}
