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

// scenario makes the requests of one transcript.
type scenario struct {
	file    string
	options Options
	steps   func(t *testing.T, r *replay) []step
	at      map[int]func(r *replay) // other events before a line
	notHeld map[int]string          // lines that are not compared, and why
}

// none is the steps of a scenario without POSTs of batches.
func none(*testing.T, *replay) []step { return nil }

// TestTranscripts compares the answers of this node with those of Sawtooth 1.2.6: the status,
// content type, keys, types, texts and numbers of every answer, and whether it took more than half
// a second. It does not compare the lines in notHeld, and of the others not these parts:
//   - any other duration, which depends on the machine
//   - payload, nonce, and value in state, which the processors of the two nodes encode differently
//   - a processor's message about a transaction, which contains a name
//   - the contents of /blocks, which the record cuts off
//   - remarks, except those about actions (a flood, polls, sizes), which the scenario repeats
func TestTranscripts(t *testing.T) {
	tier.Plain(t)
	quarter := 15 * time.Second // the REST timeout of the recorded node
	all := []scenario{
		{
			file: "01-pending-noengine.txt", options: Options{BlockInterval: time.Hour},
			steps: func(t *testing.T, _ *replay) []step {
				a, b := mk(t, call(Set("x", 1))), mk(t, call(Set("x", 2)))
				return []step{posts(a), posts(a), posts(a), posts(a), posts(a, a), posts(b, b)}
			},
		},
		{
			file: "02-flood-noengine.txt", options: Options{BlockInterval: time.Hour},
			steps: func(t *testing.T, r *replay) []step {
				bubbleSubmit(t, r.n, mk(t, call(Set("x", 1))), mk(t, call(Set("x", 2)))) // these were pending in the record
				return floodSteps(t)
			},
		},
		{
			file: "03-errors-noengine.txt", options: Options{BlockInterval: time.Hour, PoolLimit: 1},
			steps: func(t *testing.T, r *replay) []step {
				bubbleSubmit(t, r.n, mk(t, call(Set("x", 1)))) // makes the pool full
				return errorSteps(t)
			},
		},
		{
			file: "06-code17-executes-later.txt", options: Options{RESTTimeout: quarter}, steps: none,
			at: map[int]func(r *replay){
				1: func(r *replay) { // the batch of a POST that was answered 503/17
					halt(r)
					b := mk(r.t, call(Set("x", 1)))
					require.Equal(r.t, codeTimedOut, bubblePost(r.t, r.n, b).code())
					r.last = []*pb.Batch{b}
				},
				2: func(r *replay) {
					r.n.AddFamily(Family{IntKey.Name, "2.0"})
					time.Sleep(2 * time.Second)
				},
			},
		},
		{file: "10-errors.txt", options: Options{RESTTimeout: quarter}, steps: func(t *testing.T, _ *replay) []step { return errorSteps(t) }},
		{
			file: "10-poison.txt", options: Options{RESTTimeout: quarter},
			steps: func(t *testing.T, _ *replay) []step {
				tx, header := mk(t, call(Set("x", 1))), mk(t, call(Set("x", 1)))
				tx.Transactions[0].Header = []byte{0xff}
				tx = wrap(t, tx.GetTransactions()...)
				header.Header = []byte{0xff}
				return []step{
					posts(tx), posts(header), posts(signedBy(t, "nonsense")),
					posts(signedBy(t, "02"+strings.Repeat("f", 64))), posts(mk(t, call(Set("x", 1)))),
				}
			},
		},
		{
			file: "11-deps.txt",
			steps: func(t *testing.T, _ *replay) []step {
				first := mk(t, call(Set("a", 1)))
				nobody := mk(t, call(Set("a", 1)).with(dependsOn(strings.Repeat("ab", 64))))
				one := signTx(t, call(Set("b", 1)))
				inside := wrap(t, one, signTx(t, call(Set("b", 1)).with(dependsOn(one.GetHeaderSignature()))))
				later := mk(t, call(Set("c", 1)))
				return []step{
					posts(first), posts(mk(t, call(Set("a", 2)).with(dependsOn(txID(first, 0))))), posts(nobody), posts(nobody), posts(inside),
					posts(mk(t, call(Set("c", 1)).with(dependsOn(txID(later, 0))))), posts(later), posts(mk(t, call(Inc("unset", 1)))),
				}
			},
		},
		{
			file: "11-invalid.txt",
			steps: func(t *testing.T, _ *replay) []step {
				bad := mk(t, call(Inc("x", 1)))
				return []step{
					posts(bad), posts(mk(t, call(Set("x", 1)))), posts(bad),
					posts(mk(t, call(Set("y", 1)), call(Inc("unset", 1)))), posts(mk(t, call(Inc("unset", 1)), call(Inc("other", 1)))),
					posts(mk(t, call(Inc("z", 1))), mk(t, call(Set("z", 1)))),
				}
			},
		},
		{
			file: "11-lists.txt", options: Options{MaxBatchesPerBlock: 12}, steps: none,
			at: map[int]func(r *replay){
				3: func(r *replay) {
					list := make([]*pb.Batch, 100)
					for i := range list {
						list[i] = mk(r.t, call(Set("counter", int64(i))))
					}
					// The seed decides which batches of a list are UNKNOWN at first.
					unknown := func(b *pb.Batch) bool {
						d := simnode.Draw{Subject: string(id(b)), Try: 1, Salt: "notice"}
						return d.Float("late") < 3.0/20
					}
					for !unknown(list[99]) {
						list[99] = mk(r.t, call(Set("counter", 99)))
					}
					got, _ := r.send(http.MethodPost, "/batches", "application/octet-stream", marshal(r.t, &pb.BatchList{Batches: list}))
					r.sized(3, "HTTP 202, body 12955 bytes", got)
					r.ids["134a6939xx"] = list[99].GetHeaderSignature()
				},
				8: func(r *replay) { require.Len(r.t, r.n.Chain(), 100) },
			},
			notHeld: map[int]string{4: "the body of the answer in the line above, without its end"},
		},
		{
			file: "11-lookups.txt",
			steps: func(t *testing.T, r *replay) []step {
				b := mk(t, call(Set("y", 1)))
				r.ids["8c0815935b"] = txID(b, 0)
				return []step{posts(b)}
			},
		},
		{
			file: "11-resubmit.txt",
			steps: func(t *testing.T, _ *replay) []step {
				a, b := mk(t, call(Set("x", 1))), mk(t, call(Set("x", 2)))
				return []step{posts(a), posts(a), posts(a), posts(a), posts(a, b)}
			},
		},
		{
			file:  "11-statusq.txt",
			steps: func(t *testing.T, _ *replay) []step { return []step{posts(mk(t, call(Set("x", 1))))} },
			at: map[int]func(r *replay){
				151: func(r *replay) {
					body := `["` + strings.Join(slices.Repeat([]string{r.ids["9e0a83f958"]}, 1000), `","`) + `"]`
					got, _ := r.send(http.MethodPost, "/batch_statuses", "application/json", []byte(body))
					r.sized(151, "HTTP 200, 219018 bytes", got)
				},
				158: func(r *replay) {
					ids := strings.Join(slices.Repeat([]string{r.ids["9e0a83f958"]}, 60), ",")
					got, _ := r.send(http.MethodGet, "/batch_statuses?id="+ids, "", nil)
					r.sized(158, "HTTP 200, 20951 bytes", got)
				},
			},
		},
		{
			file: "11-window.txt",
			steps: func(t *testing.T, _ *replay) []step {
				var all []step
				for i := range 20 {
					all = append(all, posts(mk(t, call(Set("x", int64(i))))))
				}
				return all
			},
		},
		{
			file: "13-flood-after-many-small-blocks.txt",
			steps: func(t *testing.T, r *replay) []step {
				for range 40 {
					bubbleSubmit(t, r.n, mk(t, call(Set("x", 1))))
					time.Sleep(time.Second)
				}
				return floodSteps(t)
			},
		},
		{
			file: "30-killed-while-waiting.txt", options: Options{RESTTimeout: quarter},
			steps: func(t *testing.T, r *replay) []step {
				halt(r)
				s := posts(mk(t, call(Set("x", 1))))
				s.before = func(n *Node) {
					go func() { time.Sleep(3900 * time.Millisecond); n.KillValidator() }()
				}
				return []step{s}
			},
		},
		{
			file: "31-while-starting.txt", steps: none,
			at: map[int]func(r *replay){1: func(r *replay) {
				b := mk(r.t, call(Set("x", 1)))
				bubbleSubmit(r.t, r.n, b)
				r.last = []*pb.Batch{b}
				r.n.KillValidator()
				r.n.StartValidator()
			}},
		},
		{
			file: "33-family.txt", options: Options{RESTTimeout: quarter},
			steps: func(t *testing.T, _ *replay) []step {
				return []step{posts(mk(t, call(Set("x", 1)).with(strange))), posts(mk(t, call(Set("y", 1))))}
			},
		},
		{
			file: "42-pending-for-waits.txt", options: Options{BlockInterval: time.Hour},
			steps: func(t *testing.T, _ *replay) []step { return []step{posts(mk(t, call(Set("x", 1))))} },
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

// halt makes the node wait for a missing processor.
func halt(r *replay) {
	bubbleSubmit(r.t, r.n, mk(r.t, call(Set("halt", 1)).with(strange)))
	time.Sleep(2 * time.Second)
}

// floodSteps returns the POSTs to a full pool.
func floodSteps(t *testing.T) []step {
	a, b, bad := mk(t, call(Set("x", 1))), mk(t, call(Set("x", 2))), mk(t, call(Set("x", 3)))
	bad.HeaderSignature = flip(bad.GetHeaderSignature())
	return []step{posts(a), posts(a, b), posts(bad)}
}

// flip changes the last digit of a signature.
func flip(signature string) string {
	last := signature[len(signature)-1:]
	if last == "0" {
		return signature[:len(signature)-1] + "1"
	}
	return signature[:len(signature)-1] + "0"
}

// signedBy returns a batch whose header names another key.
func signedBy(t *testing.T, key string) *pb.Batch {
	t.Helper()
	b := mk(t, call(Set("x", 1)))
	h := &pb.BatchHeader{SignerPublicKey: key, TransactionIds: []string{txID(b, 0)}}
	b.Header = marshal(t, h)
	return b
}

// errorSteps returns the POSTs of the scenario of errors, in its order.
func errorSteps(t *testing.T) []step {
	one := func() *pb.Batch { return mk(t, call(Set("x", 1))) }
	bent := func(bend func(b *pb.Batch)) step {
		b := one()
		bend(b)
		return posts(b)
	}
	header := func(bend func(h *pb.TransactionHeader)) step { return posts(mk(t, call(Set("x", 1)).with(bend))) }
	list := marshal(t, &pb.BatchList{Batches: []*pb.Batch{one()}})
	pair := []*pb.Transaction{signTx(t, call(Set("x", 1))), signTx(t, call(Set("y", 1)))}
	swapped := wrap(t, pair...)
	slices.Reverse(swapped.Transactions)
	missing := wrap(t, pair...)
	missing.Transactions = missing.Transactions[:1]
	twice := wrap(t, pair[0], pair[0])
	forged := signTx(t, call(Set("x", 1)))
	forged.HeaderSignature = flip(forged.GetHeaderSignature())
	first, bad, third := one(), one(), one()
	bad.HeaderSignature = flip(bad.GetHeaderSignature())
	return []step{
		raw([]byte{}), raw([]byte("hello world, this is not a batch")), raw([]byte{0xff}), raw([]byte{0x2a, 1, 'x'}), raw(list[:len(list)-7]),
		raw(list), // sent without a content type
		raw(list), // sent with a content type that has a parameter
		bent(func(b *pb.Batch) { b.HeaderSignature = flip(b.GetHeaderSignature()) }),
		bent(func(b *pb.Batch) { b.HeaderSignature = b.GetHeaderSignature()[:99] }),
		bent(func(b *pb.Batch) { b.HeaderSignature = "zz" + b.GetHeaderSignature()[2:] }),
		bent(func(b *pb.Batch) { b.HeaderSignature = highS(t, b.GetHeaderSignature()) }),
		bent(func(b *pb.Batch) { b.HeaderSignature = strings.ToUpper(b.GetHeaderSignature()) }),
		header(func(h *pb.TransactionHeader) { h.PayloadSha512 = strings.Repeat("0", 128) }),
		posts(wrap(t, forged)),
		header(func(h *pb.TransactionHeader) { h.BatcherPublicKey = "02" + strings.Repeat("1", 64) }),
		posts(swapped), posts(missing), posts(twice),
		header(func(h *pb.TransactionHeader) { h.Dependencies = []string{""} }),
		posts(first, bad, third), posts(first, third),
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
	n := Start(t, fast(Options{}))
	s := dial(t, n)
	var refused []map[string]any // the recorded errors of this connection
	events := 0
	for _, e := range entries {
		f := e.Frame
		switch {
		case f == nil: // an entry of the second client
		case f.Sent:
			s.say(f.Text)
			commit(t, n, "x", int64(e.Line))
		case f.End && strings.HasSuffix(f.Text, "EOF"):
			var heard []map[string]any
			for _, m := range s.all() {
				if m["error"] != nil {
					heard = append(heard, m)
				} else {
					events++
				}
			}
			require.Equal(t, refused, heard, "line %d", e.Line)
			s, refused = dial(t, n), nil
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
	require.NotEmpty(t, s.hear()["block_id"], "the one that was opened last hears the head")
}

// keyInText finds the keys of the outermost object in the recorded part of an event.
var keyInText = regexp.MustCompile(`[{,] ?"(block_\w+|previous_block_id|state_changes)": `)

// all returns all messages until the socket ends.
func (s *subscriber) all() (heard []map[string]any) {
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
	n.whileLocked(func(time.Time) { e = n.v.chain.blockEvent(n.v.chain.blocks[len(n.v.chain.blocks)-1], nil) })
	return e
}
