package sawtoothtest

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/dlt/internal/simnode"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/internal/transcript"
)

// transcriptScenario makes the requests of one transcript.
type transcriptScenario struct {
	file            string
	options         Options
	steps           func(t *testing.T, r *transcriptReplay) []postStep
	actionsByLine   map[int]func(r *transcriptReplay) // other events before a line
	uncomparedLines map[int]string                    // lines that are not compared, and why
}

// noSteps is the steps of a scenario without POSTs of batches.
func noSteps(*testing.T, *transcriptReplay) []postStep { return nil }

// TestTranscripts compares the answers of this node with those of Sawtooth 1.2.6: the status,
// content type, keys, types, texts and numbers of every answer, and whether it took more than half
// a second. It does not compare the lines in uncomparedLines, and of the others not these parts:
//   - any other duration, which depends on the machine
//   - payload, nonce, and value in state, which the processors of the two nodes encode differently
//   - a processor's message about a transaction, which contains a name
//   - the contents of /blocks, which the record cuts off
//   - remarks, except those about actions (a flood, polls, sizes), which the scenario repeats
func TestTranscripts(t *testing.T) {
	tier.Plain(t)
	quarter := 15 * time.Second // the REST timeout of the recorded node
	all := []transcriptScenario{
		{
			file: "01-pending-noengine.txt", options: Options{BlockInterval: time.Hour},
			steps: func(t *testing.T, _ *transcriptReplay) []postStep {
				a, b := makeBatch(t, intkeyTx(Set("x", 1))), makeBatch(t, intkeyTx(Set("x", 2)))
				return []postStep{postOf(a), postOf(a), postOf(a), postOf(a), postOf(a, a), postOf(b, b)}
			},
		},
		{
			file: "02-flood-noengine.txt", options: Options{BlockInterval: time.Hour},
			steps: func(t *testing.T, r *transcriptReplay) []postStep {
				submitInBubble(t, r.node, makeBatch(t, intkeyTx(Set("x", 1))), makeBatch(t, intkeyTx(Set("x", 2)))) // these were pending in the record
				return floodSteps(t)
			},
		},
		{
			file: "03-errors-noengine.txt", options: Options{BlockInterval: time.Hour, PoolLimit: 1},
			steps: func(t *testing.T, r *transcriptReplay) []postStep {
				submitInBubble(t, r.node, makeBatch(t, intkeyTx(Set("x", 1)))) // makes the pool full
				return errorSteps(t)
			},
		},
		{
			file: "06-code17-executes-later.txt", options: Options{RESTTimeout: quarter}, steps: noSteps,
			actionsByLine: map[int]func(r *transcriptReplay){
				1: func(r *transcriptReplay) { // the batch of a POST that was answered 503/17
					haltNode(r)
					b := makeBatch(r.t, intkeyTx(Set("x", 1)))
					require.Equal(r.t, codeTimedOut, postInBubble(r.t, r.node, b).code())
					r.lastBatches = []*pb.Batch{b}
				},
				2: func(r *transcriptReplay) {
					r.node.AddFamily(Family{IntKey.Name, "2.0"})
					time.Sleep(2 * time.Second)
				},
			},
		},
		{file: "10-errors.txt", options: Options{RESTTimeout: quarter}, steps: func(t *testing.T, _ *transcriptReplay) []postStep { return errorSteps(t) }},
		{
			file: "10-poison.txt", options: Options{RESTTimeout: quarter},
			steps: func(t *testing.T, _ *transcriptReplay) []postStep {
				tx, header := makeBatch(t, intkeyTx(Set("x", 1))), makeBatch(t, intkeyTx(Set("x", 1)))
				tx.Transactions[0].Header = []byte{0xff}
				tx = signBatch(t, tx.GetTransactions()...)
				header.Header = []byte{0xff}
				return []postStep{
					postOf(tx), postOf(header), postOf(batchNamingKey(t, "nonsense")),
					postOf(batchNamingKey(t, "02"+strings.Repeat("f", 64))), postOf(makeBatch(t, intkeyTx(Set("x", 1)))),
				}
			},
		},
		{
			file: "11-deps.txt",
			steps: func(t *testing.T, _ *transcriptReplay) []postStep {
				first := makeBatch(t, intkeyTx(Set("a", 1)))
				nobody := makeBatch(t, intkeyTx(Set("a", 1)).withHeader(dependsOn(strings.Repeat("ab", 64))))
				one := signTx(t, intkeyTx(Set("b", 1)))
				inside := signBatch(t, one, signTx(t, intkeyTx(Set("b", 1)).withHeader(dependsOn(one.GetHeaderSignature()))))
				later := makeBatch(t, intkeyTx(Set("c", 1)))
				return []postStep{
					postOf(first), postOf(makeBatch(t, intkeyTx(Set("a", 2)).withHeader(dependsOn(txID(first, 0))))), postOf(nobody), postOf(nobody), postOf(inside),
					postOf(makeBatch(t, intkeyTx(Set("c", 1)).withHeader(dependsOn(txID(later, 0))))), postOf(later), postOf(makeBatch(t, intkeyTx(Inc("unset", 1)))),
				}
			},
		},
		{
			file: "11-invalid.txt",
			steps: func(t *testing.T, _ *transcriptReplay) []postStep {
				bad := makeBatch(t, intkeyTx(Inc("x", 1)))
				return []postStep{
					postOf(bad), postOf(makeBatch(t, intkeyTx(Set("x", 1)))), postOf(bad),
					postOf(makeBatch(t, intkeyTx(Set("y", 1)), intkeyTx(Inc("unset", 1)))), postOf(makeBatch(t, intkeyTx(Inc("unset", 1)), intkeyTx(Inc("other", 1)))),
					postOf(makeBatch(t, intkeyTx(Inc("z", 1))), makeBatch(t, intkeyTx(Set("z", 1)))),
				}
			},
		},
		{
			file: "11-lists.txt", options: Options{MaxBatchesPerBlock: 12}, steps: noSteps,
			actionsByLine: map[int]func(r *transcriptReplay){
				3: func(r *transcriptReplay) {
					list := make([]*pb.Batch, 100)
					for i := range list {
						list[i] = makeBatch(r.t, intkeyTx(Set("counter", int64(i))))
					}
					// The seed decides which batches of a list are UNKNOWN at first.
					unknown := func(b *pb.Batch) bool {
						d := simnode.Draw{Subject: string(batchID(b)), Try: 1, Salt: "notice"}
						return d.Float("late") < 3.0/20
					}
					for !unknown(list[99]) {
						list[99] = makeBatch(r.t, intkeyTx(Set("counter", 99)))
					}
					got, _ := r.send(http.MethodPost, "/batches", "application/octet-stream", marshal(r.t, &pb.BatchList{Batches: list}))
					r.compareLength(3, "HTTP 202, body 12955 bytes", got)
					r.idsByPrefix["134a6939xx"] = list[99].GetHeaderSignature()
				},
				8: func(r *transcriptReplay) { require.Len(r.t, r.node.Chain(), 100) },
			},
			uncomparedLines: map[int]string{4: "the body of the answer in the line above, without its end"},
		},
		{
			file: "11-lookups.txt",
			steps: func(t *testing.T, r *transcriptReplay) []postStep {
				b := makeBatch(t, intkeyTx(Set("y", 1)))
				r.idsByPrefix["8c0815935b"] = txID(b, 0)
				return []postStep{postOf(b)}
			},
		},
		{
			file: "11-resubmit.txt",
			steps: func(t *testing.T, _ *transcriptReplay) []postStep {
				a, b := makeBatch(t, intkeyTx(Set("x", 1))), makeBatch(t, intkeyTx(Set("x", 2)))
				return []postStep{postOf(a), postOf(a), postOf(a), postOf(a), postOf(a, b)}
			},
		},
		{
			file: "11-statusq.txt",
			steps: func(t *testing.T, _ *transcriptReplay) []postStep {
				return []postStep{postOf(makeBatch(t, intkeyTx(Set("x", 1))))}
			},
			actionsByLine: map[int]func(r *transcriptReplay){
				151: func(r *transcriptReplay) {
					body := `["` + strings.Join(slices.Repeat([]string{r.idsByPrefix["9e0a83f958"]}, 1000), `","`) + `"]`
					got, _ := r.send(http.MethodPost, "/batch_statuses", "application/json", []byte(body))
					r.compareLength(151, "HTTP 200, 219018 bytes", got)
				},
				158: func(r *transcriptReplay) {
					ids := strings.Join(slices.Repeat([]string{r.idsByPrefix["9e0a83f958"]}, 60), ",")
					got, _ := r.send(http.MethodGet, "/batch_statuses?id="+ids, "", nil)
					r.compareLength(158, "HTTP 200, 20951 bytes", got)
				},
			},
		},
		{
			file: "11-window.txt",
			steps: func(t *testing.T, _ *transcriptReplay) []postStep {
				var all []postStep
				for i := range 20 {
					all = append(all, postOf(makeBatch(t, intkeyTx(Set("x", int64(i))))))
				}
				return all
			},
		},
		{
			file: "13-flood-after-many-small-blocks.txt",
			steps: func(t *testing.T, r *transcriptReplay) []postStep {
				for range 40 {
					submitInBubble(t, r.node, makeBatch(t, intkeyTx(Set("x", 1))))
					time.Sleep(time.Second)
				}
				return floodSteps(t)
			},
		},
		{
			file: "30-killed-while-waiting.txt", options: Options{RESTTimeout: quarter},
			steps: func(t *testing.T, r *transcriptReplay) []postStep {
				haltNode(r)
				s := postOf(makeBatch(t, intkeyTx(Set("x", 1))))
				s.doBefore = func(n *Node) {
					go func() { time.Sleep(3900 * time.Millisecond); n.KillValidator() }()
				}
				return []postStep{s}
			},
		},
		{
			file: "31-while-starting.txt", steps: noSteps,
			actionsByLine: map[int]func(r *transcriptReplay){1: func(r *transcriptReplay) {
				b := makeBatch(r.t, intkeyTx(Set("x", 1)))
				submitInBubble(r.t, r.node, b)
				r.lastBatches = []*pb.Batch{b}
				r.node.KillValidator()
				r.node.StartValidator()
			}},
		},
		{
			file: "33-family.txt", options: Options{RESTTimeout: quarter},
			steps: func(t *testing.T, _ *transcriptReplay) []postStep {
				return []postStep{postOf(makeBatch(t, intkeyTx(Set("x", 1)).withHeader(setUnservedVersion))), postOf(makeBatch(t, intkeyTx(Set("y", 1))))}
			},
		},
		{
			file: "42-pending-for-waits.txt", options: Options{BlockInterval: time.Hour},
			steps: func(t *testing.T, _ *transcriptReplay) []postStep {
				return []postStep{postOf(makeBatch(t, intkeyTx(Set("x", 1))))}
			},
		},
	}
	held := []string{"20-websocket.txt"} // TestTranscriptOfSockets compares this one
	for _, sc := range all {
		held = append(held, sc.file)
		t.Run(sc.file, func(t *testing.T) { replayFile(t, sc) })
	}
	files, err := os.ReadDir(filepath.Join("testdata", "nodes"))
	require.NoError(t, err)
	for _, f := range files {
		require.Contains(t, held, f.Name(), "a transcript that nobody holds")
	}
}

// haltNode makes the node wait for a missing processor.
func haltNode(r *transcriptReplay) {
	submitInBubble(r.t, r.node, makeBatch(r.t, intkeyTx(Set("halt", 1)).withHeader(setUnservedVersion)))
	time.Sleep(2 * time.Second)
}

// floodSteps returns the POSTs to a full pool.
func floodSteps(t *testing.T) []postStep {
	a, b, bad := makeBatch(t, intkeyTx(Set("x", 1))), makeBatch(t, intkeyTx(Set("x", 2))), makeBatch(t, intkeyTx(Set("x", 3)))
	bad.HeaderSignature = changeLastDigit(bad.GetHeaderSignature())
	return []postStep{postOf(a), postOf(a, b), postOf(bad)}
}

// changeLastDigit changes the last digit of a signature.
func changeLastDigit(signature string) string {
	last := signature[len(signature)-1:]
	if last == "0" {
		return signature[:len(signature)-1] + "1"
	}
	return signature[:len(signature)-1] + "0"
}

// batchNamingKey returns a batch whose header names another key.
func batchNamingKey(t *testing.T, key string) *pb.Batch {
	t.Helper()
	b := makeBatch(t, intkeyTx(Set("x", 1)))
	h := &pb.BatchHeader{SignerPublicKey: key, TransactionIds: []string{txID(b, 0)}}
	b.Header = marshal(t, h)
	return b
}

// errorSteps returns the POSTs of the scenario of errors, in its order.
func errorSteps(t *testing.T) []postStep {
	one := func() *pb.Batch { return makeBatch(t, intkeyTx(Set("x", 1))) }
	bent := func(bend func(b *pb.Batch)) postStep {
		b := one()
		bend(b)
		return postOf(b)
	}
	header := func(bend func(h *pb.TransactionHeader)) postStep {
		return postOf(makeBatch(t, intkeyTx(Set("x", 1)).withHeader(bend)))
	}
	list := marshal(t, &pb.BatchList{Batches: []*pb.Batch{one()}})
	pair := []*pb.Transaction{signTx(t, intkeyTx(Set("x", 1))), signTx(t, intkeyTx(Set("y", 1)))}
	swapped := signBatch(t, pair...)
	slices.Reverse(swapped.Transactions)
	missing := signBatch(t, pair...)
	missing.Transactions = missing.Transactions[:1]
	twice := signBatch(t, pair[0], pair[0])
	forged := signTx(t, intkeyTx(Set("x", 1)))
	forged.HeaderSignature = changeLastDigit(forged.GetHeaderSignature())
	first, bad, third := one(), one(), one()
	bad.HeaderSignature = changeLastDigit(bad.GetHeaderSignature())
	return []postStep{
		postOfBytes([]byte{}), postOfBytes([]byte("hello world, this is not a batch")), postOfBytes([]byte{0xff}), postOfBytes([]byte{0x2a, 1, 'x'}), postOfBytes(list[:len(list)-7]),
		postOfBytes(list), // sent without a content type
		postOfBytes(list), // sent with a content type that has a parameter
		bent(func(b *pb.Batch) { b.HeaderSignature = changeLastDigit(b.GetHeaderSignature()) }),
		bent(func(b *pb.Batch) { b.HeaderSignature = b.GetHeaderSignature()[:99] }),
		bent(func(b *pb.Batch) { b.HeaderSignature = "zz" + b.GetHeaderSignature()[2:] }),
		bent(func(b *pb.Batch) { b.HeaderSignature = highS(t, b.GetHeaderSignature()) }),
		bent(func(b *pb.Batch) { b.HeaderSignature = strings.ToUpper(b.GetHeaderSignature()) }),
		header(func(h *pb.TransactionHeader) { h.PayloadSha512 = strings.Repeat("0", 128) }),
		postOf(signBatch(t, forged)),
		header(func(h *pb.TransactionHeader) { h.BatcherPublicKey = "02" + strings.Repeat("1", 64) }),
		postOf(swapped), postOf(missing), postOf(twice),
		header(func(h *pb.TransactionHeader) { h.Dependencies = []string{""} }),
		postOf(first, bad, third), postOf(first, third),
	}
}

// TestTranscriptOfSockets sends on a websocket the messages that a client sent to Sawtooth 1.2.6,
// and compares the answers: the errors and their order, the keys of an event, and whether the
// connection ends. It does not compare the times of events, which depend on the blocks, their
// contents, of which the record has only the beginning, and what a second client got.
func TestTranscriptOfSockets(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "nodes", "20-websocket.txt"))
	require.NoError(t, err)
	entries, err := transcript.Parse(string(text))
	require.NoError(t, err)
	n := Start(t, fastOptions(Options{}))
	s := subscribe(t, n)
	var refused []map[string]any // the recorded errors of this connection
	events := 0
	for _, e := range entries {
		f := e.Frame
		switch {
		case f == nil: // an entry of the second client
		case f.Sent:
			s.send(f.Text)
			commitValue(t, n, "x", int64(e.Line))
		case f.End && strings.HasSuffix(f.Text, "EOF"):
			var heard []map[string]any
			for _, m := range s.receiveAll() {
				if m["error"] != nil {
					heard = append(heard, m)
				} else {
					events++
				}
			}
			require.Equal(t, refused, heard, "line %d", e.Line)
			s, refused = subscribe(t, n), nil
		case f.End: // the end of the recording
		case f.Cut:
			event := n.event()
			for _, key := range keyInText.FindAllStringSubmatch(f.Text, -1) {
				require.Contains(t, event, key[1], "line %d", e.Line)
			}
		default:
			m := map[string]any{}
			require.NoError(t, json.Unmarshal([]byte(f.Text), &m))
			refused = append(refused, m)
		}
	}
	require.GreaterOrEqual(t, events, 6)
	require.NotEmpty(t, s.receive()["block_id"], "the one that was opened last hears the head")
}

// keyInText finds the keys of the outermost object in the recorded part of an event.
var keyInText = regexp.MustCompile(`[{,] ?"(block_\w+|previous_block_id|state_changes)": `)

// receiveAll returns all messages until the socket ends.
func (s *subscriber) receiveAll() (heard []map[string]any) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	for {
		_, text, err := s.conn.Read(ctx)
		if err != nil {
			require.NoError(s.t, ctx.Err(), "it did not end")
			return heard
		}
		m := map[string]any{}
		require.NoError(s.t, json.Unmarshal(text, &m))
		heard = append(heard, m)
	}
}

// event returns the event of the head as a subscriber gets it.
func (n *Node) event() (e map[string]any) {
	n.whileLocked(func(time.Time) {
		e = n.validator.chain.blockEvent(n.validator.chain.blocks[len(n.validator.chain.blocks)-1], nil)
	})
	return e
}
