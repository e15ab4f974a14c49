package main

import (
	"encoding/binary"
	"encoding/xml"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// protocolMessage returns a message of PostgreSQL's protocol; the first message has no letter.
func protocolMessage(letter string, body int) []byte {
	b := binary.BigEndian.AppendUint32([]byte(letter), uint32(4+body))
	return append(b, make([]byte, body)...)
}

func TestWireCountsTripsHoweverTheyAreCut(t *testing.T) {
	var all []byte
	for _, m := range []struct {
		letter string
		body   int
	}{{"", 30}, {"Q", 6}, {"P", 40}, {"B", 1000}, {"D", 2}, {"E", 5}, {"S", 0}, {"Q", 20}, {"d", 100_000}, {"c", 0}, {"E", 5}, {"E", 5}, {"S", 0}} {
		all = append(all, protocolMessage(m.letter, m.body)...)
	}
	for _, cut := range []int{1, 3, 7, 4096, len(all)} {
		w := &tripCounter{}
		c := &countingConn{wire: w, headSize: 4}
		for rest := all; len(rest) > 0; {
			n := min(cut, len(rest))
			c.countTrips(rest[:n])
			rest = rest[n:]
		}
		require.EqualValues(t, 5, w.trips.Load(), "cut in %d", cut)
	}
}

func TestTheFakeLedgerNoticesWhatIsTwiceOrOutOfOrder(t *testing.T) {
	s := httptest.NewServer(newFakeLedger())
	defer s.Close()
	c := newClient(s.URL, 1)
	defer c.close()
	w := newWork(1, 6, 2, 200)
	for _, i := range []int{0, 1, 2, 3, 5, 4, 4} { // lane 1 has 1, 3, 5, lane 0 has 0, 2, 4
		require.NoError(t, c.post(t.Context(), w.batches[i].Payload))
	}
	answers, err := c.statuses(t.Context(), []string{string(w.batches[3].ID), strings.Repeat("f", idLen)})
	require.NoError(t, err)
	require.Equal(t, []statusAnswer{{string(w.batches[3].ID), wordCommitted}, {strings.Repeat("f", idLen), wordUnknown}}, answers)
	got, err := c.resetLedger(t.Context())
	require.NoError(t, err)
	require.Equal(t, ledgerTally{Posts: 7, Batches: 6, Twice: 1}, got)

	for _, i := range []int{2, 0} {
		require.NoError(t, c.post(t.Context(), w.batches[i].Payload))
	}
	got, err = c.resetLedger(t.Context())
	require.NoError(t, err)
	require.Equal(t, ledgerTally{Posts: 2, Batches: 2, Breaches: 2}, got)
}

func TestWorkIsFoundByItsIDs(t *testing.T) {
	w := newWork(7, 1000, 3, minPayloadSize)
	seen := map[string]bool{}
	for i, b := range w.batches {
		require.Equal(t, i, w.indexOf(string(b.ID)))
		require.NoError(t, b.Validate())
		require.False(t, seen[string(b.ID)])
		seen[string(b.ID)] = true
	}
	require.Nil(t, w.momentsOf("somebody else's"))
}

func TestLanesTakeTurns(t *testing.T) {
	w := newWork(7, 5, 2, minPayloadSize)
	for i, lane := range []int{0, 1, 0, 1, 0} {
		require.Equal(t, laneName(lane), w.batches[i].Service)
		require.EqualValues(t, i/2, binary.BigEndian.Uint32(w.batches[i].Payload[idLen+4:]))
	}
}

func TestWaits(t *testing.T) {
	w := newWork(7, 3, 2, minPayloadSize)
	w.momentsByBatch = []moments{{added: 1, posted: 2, final: 15}, {added: 1, final: 3, answered: 4}, {added: 3}}
	require.Equal(t, []time.Duration{14, 3}, w.deliveryTimes())
	posts := w.between(func(m moments) int64 { return m.added }, func(m moments) int64 { return m.posted })
	require.Equal(t, []time.Duration{1}, posts)
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
	m := &meter{ledgerPID: os.Getpid(), postgresPID: os.Getppid()}
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

// A group is passed on when it is full, or when its first row has waited for the linger; no row is
// lost.
func TestGrouped(t *testing.T) {
	in := make(chan *floorRow, 10)
	out := groupRows(in, 4)
	for i := range 10 {
		in <- &floorRow{seq: int64(i)}
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

// samplePage is a page with the figures of two modes.
func samplePage() page {
	var p page
	for _, m := range []string{"throughput-pq", "throughput"} {
		f := modeFigures{Mode: m, Title: m + " & <others>", Machine: "2 cores", Entries: []entryFigures{{Label: contenderFloor}, {Label: contenderOurs}, {Label: labelRiverTuned}}}
		for i := range f.Entries {
			for round := range 3 {
				f.Entries[i].add(result{Rate: float64(1000 * (3 - i) * (round + 1)), P50: 7})
			}
		}
		p.setFigures(f)
	}
	return p
}

func TestThePageKeepsWhatIsWrittenByHand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "performance.md")
	before, after := "# By hand\n\n", "\n## Also by hand\n"
	require.NoError(t, os.WriteFile(path, []byte(before+pageBegin+"\nold\n"+pageEnd+after), 0o600))
	p := samplePage()
	require.NoError(t, p.save(path))
	first, err := os.ReadFile(path)
	require.NoError(t, err)
	text := string(first)
	require.True(t, strings.HasPrefix(text, before))
	require.True(t, strings.HasSuffix(text, after))
	require.NotContains(t, text, "old")
	require.Less(t, strings.Index(text, "### throughput &"), strings.Index(text, "### throughput-pq"))
	require.Contains(t, text, "| pgx's own pool, Serial over 10,000 lanes: rate, of the floor's, and of the tuned job queue's | ≥ 0.75, 2 | **0.67**, 2.00 |")

	// The same page is made again from the files alone.
	require.NoError(t, options{pagePath: path}.remakePage())
	second, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, text, string(second))

	require.NoError(t, os.WriteFile(path, []byte("no lines"), 0o600))
	require.ErrorContains(t, p.save(path), pageBegin)
}

func TestThePlotIsXML(t *testing.T) {
	d := xml.NewDecoder(strings.NewReader(samplePage().plotSVG()))
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
	for _, o := range []options{{modes: "nonsense"}, {modes: "throughput-sqlite", contenders: contenderRiver}, {modes: "throughput", pagePath: "x.md", batches: 5}} {
		_, err := o.chosenModes()
		require.Error(t, err)
	}
	chosen, err := options{modes: "throughput,held", batches: 5}.chosenModes()
	require.NoError(t, err)
	require.Len(t, chosen, 2)
	require.Equal(t, 5, chosen[1].entries[0].job.Batches)
	require.Equal(t, 400, chosen[1].entries[0].job.Lanes)
}

// Every entry that a goal names is an entry of a mode.
func TestGoalsNameEntries(t *testing.T) {
	for _, g := range goals() {
		found := 0
		for _, m := range modes() {
			for _, e := range m.entries {
				if m.name == g.mode && (e.label == g.entry || e.label == g.baseEntry) {
					found++
				}
			}
		}
		want := 2
		if g.baseEntry == "" {
			want = 1
		}
		require.Equal(t, want, found, g.description)
	}
}
