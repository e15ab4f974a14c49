package splintertest_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// scenarioNotes is the beginnings of remarks that say nothing about the node: headings, dates, and
// results of this library.
var scenarioNotes = []string{
	"2026-11-22T", "malformed bodies", "bad batches", "places", "authorization", "headers", "statuses", "big bodies",
	"create registry", "append ", "names: ", "good, contract fails: our client's", "good, failing, good: our client's",
	"failing, good: our client's", "45 posts of", "post ",
}

// uncomparedNotes is the lines of the records that are not compared with the simulator, and the
// reasons.
var uncomparedNotes = map[string]string{
	"08-poison-trap.txt:8": "the service had stalled before the record begins; with what is not said",
	"18-stall.txt:16":      "the other node was down; nobody listens in virtual time",
	"14-half.txt:12":       "the test of a start that the record's own tool made",
}

func optionsOfVersion(version int, circuits ...string) *splintertest.Options {
	o := splintertest.RealTimes()
	for _, id := range circuits {
		o.Circuits = append(o.Circuits, splintertest.Circuit{ID: id, Version: version})
	}
	return o
}

// TestTranscripts compares the simulator's answers with those of real nodes: status, content type,
// and the body's keys, types and texts.
func TestTranscripts(t *testing.T) {
	tier.Plain(t)
	runTranscript(t, "02-errors.txt", optionsOfVersion(2, "aaaaa-bbbbb"), errorsScenario)
	runTranscript(t, "03-dup.txt", optionsOfVersion(2, "aaaaa-bbbbb"), duplicatesScenario)
	runTranscript(t, "03-idem.txt", optionsOfVersion(2, "idem0-00001"), idempotentPostsScenario)
	flooded := optionsOfVersion(2, "flood-00001")
	flooded.CommitInterval = 1200 * time.Millisecond // as slow as the recorded node
	runTranscript(t, "05-flood.txt", flooded, floodScenario)
	empty := emptyBatch(t)
	foreign := newTransaction(splintertest.Set("x", 1))
	foreign.FamilyName = "nobody"
	runTranscript(t, "08-poison-empty.txt", optionsOfVersion(2, "poiso-00002"), func(p *transcriptReplay) { poisonScenario(p, empty) })
	runTranscript(t, "08-poison-family.txt", optionsOfVersion(2, "poiso-00001"), func(p *transcriptReplay) { poisonScenario(p, buildBatch(t, foreign)) })
	runTranscript(t, "08-poison-trap.txt", optionsOfVersion(2, "pois2-10001"), trapScenario)
	runTranscript(t, "14-half.txt", optionsOfVersion(2, "halfx-00001"), halfInvalidBatchScenario)
	runTranscript(t, "16-multi.txt", optionsOfVersion(2, "work0-00001"), severalTransactionsScenario)
	runTranscript(t, "17-late.txt", optionsOfVersion(2, "pois2-10001", "pois1-10001"), lateBatchScenario)
	runTranscript(t, "18-stall.txt", optionsOfVersion(2, "pois2-10001", "pois1-10001"), stallScenario)
	for line := range uncomparedNotes {
		assert.True(t, passedFiles[line], "%s is no line, or is held", line)
	}
}

// emptyBatch returns a batch without transactions, which no builder makes.
func emptyBatch(t *testing.T) batch.Batch {
	t.Helper()
	key, err := sawtooth.ParsePrivateKey("2f1e7b7a130d7ba9da0068b3bb0ba1d79e7e77110302c9f746c3c2a63fe40088")
	require.NoError(t, err)
	header := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), key.PublicKey())
	id, err := key.Sign(header)
	require.NoError(t, err)
	payload := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), header)
	return batch.Batch{ID: batch.ID(id), Payload: protowire.AppendString(protowire.AppendTag(payload, 2, protowire.BytesType), id)}
}

func errorsScenario(p *transcriptReplay) {
	good, one := incBatch(p), incBatch(p)
	raw := func(b batch.Batch, old, repl string) []byte {
		require.Contains(p, string(b.Payload), old)
		return batchList(batch.Batch{Payload: bytes.Replace(b.Payload, []byte(old), []byte(repl), 1)})
	}
	id, address := string(one.ID), splintertest.Address("x")
	highS := func() string {
		n, _ := new(big.Int).SetString("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16)
		s, _ := new(big.Int).SetString(id[64:], 16)
		return id[:64] + fmt.Sprintf("%064x", n.Sub(n, s))
	}()
	key := "026a2c795a9776f75464aa3bda3534c3154a6e91b357b1181d3f515110f84b67c5"
	unhex := func(s string) []byte { b, err := hex.DecodeString(s); require.NoError(p, err); return b }
	// resigned returns a list whose batch is correctly signed, whatever mistakes it contains.
	p.postBody("garbage text", []byte("not protobuf at all"))
	p.postBody("garbage bytes", []byte{0xff, 0xff, 0xff})
	p.postBody("truncated list", batchList(good)[:len(batchList(good))-7])
	p.postBody("empty body", nil)
	p.postBody("list of one empty batch", unhex("0a00"))
	p.postBody("a bare Batch", good.Payload)
	p.postBody("batch signature does not match", raw(one, id, strings.Repeat("1", 128)))
	p.postBody("batch signature high-S", raw(one, id, highS))
	p.postBody("batch id upper case", raw(one, id, strings.ToUpper(id)))
	p.postBody("batch signature too short", raw(one, "\x12\x80\x01"+id, "\x12\x02"+id[:2]))
	p.postBody("batch signature not hex", raw(one, id, "z"+id[1:]))
	p.postBody("batch signer is no point", raw(one, key, "02"+strings.Repeat("0", 64)))
	p.postBody("batch signer not hex", raw(one, key, "z"+key[1:]))
	p.postBody("payload digest differs", raw(one, "inc x 1", "inc x 2"))
	p.postBody("address not hex", raw(one, address, "z"+address[1:]))
	p.postBody("address odd length", raw(one, "\x2a\x46"+address, "\x2a\x46"+address[:69]+" "))
	p.postBody("transaction header undecodable", brokenSignatureBody(p))
	p.postBody("batch header undecodable", raw(one, "\x0a\x42"+key, "\x0a\xff"+key))
	digest := incBatch(p)
	digest.Payload = bytes.Replace(digest.Payload, []byte("inc x 1"), []byte("inc x 3"), 1)
	p.postBody("list: good, bad digest, good", batchList(incBatch(p), digest, incBatch(p)))
	p.getStatuses("status of the two good ones")
	bad := incBatch(p)
	bad.Payload = bytes.Replace(bad.Payload, []byte(address), []byte("z"+address[1:]), 1)
	p.postBody("list: good, address not hex", batchList(incBatch(p), bad))
	p.getStatuses("status of the good one")

	for _, label := range []string{"unknown service", "unknown circuit", "malformed circuit"} {
		p.postBatches(label, incBatch(p))
	}
	for _, label := range []string{"unknown circuit, status", "unknown route under service", "unknown route", "GET batches"} {
		p.getStatuses(label)
	}
	p.postBody("POST batch_statuses", nil)
	for range 8 {
		p.postBatches("POST auth", incBatch(p))
		p.getStatuses("GET auth")
	}
	p.getStatuses("unknown route with unknown key")
	p.getStatuses("unknown route without auth")
	for range 7 {
		p.postBatches("SplinterProtocolVersion", incBatch(p))
	}
	p.getStatuses("GET SplinterProtocolVersion 2")
	p.postBatches("no Content-Type", incBatch(p))
	p.postBatches("Content-Type json", incBatch(p))
	for _, label := range []string{
		"no ids", "ids empty", "id instead of ids", "duplicates", "%2C", "ids twice", "unknown, wait=2", "unknown, wait=false",
		"unknown, wait=0", "unknown, wait=2^64-1",
	} {
		p.getStatuses(label)
	}
	for range 7 { // the label ends with the number
		x, line := p.nextExchange("")
		count, err := strconv.Atoi(strings.Fields(p.nextNote(""))[0])
		require.NoError(p, err)
		var ids []batch.Batch
		for range count {
			ids = append(ids, batch.Batch{ID: batch.ID(fmt.Sprintf("%016x", rand.Uint64()) + strings.Repeat("0", 112))})
		}
		p.call(x, line, targetOf(x, ids), nil)
	}
	for _, size := range []int{1, 11, 40, 70} {
		b := buildBatch(p, newTransaction(splintertest.Invalid("x")))
		x, line := p.nextExchange(fmt.Sprint(size, " MiB"))
		p.keepPace(x)
		p.watchStatuses(p.network.Service(0), b)
		// An unknown field makes the list as long as the record's.
		padding := protowire.AppendBytes(protowire.AppendTag(batchList(b), 15, protowire.BytesType), make([]byte, size<<20))
		p.call(x, line, x.Request.Target, padding)
		p.compareStatusesSeen()
	}
}

// brokenSignatureBody returns a batch with a transaction whose header is no message.
func brokenSignatureBody(p *transcriptReplay) []byte {
	b := incBatch(p)
	const field = "\x0a\x42" // the batcher's key in the transaction's header
	at := bytes.LastIndex(b.Payload, []byte(field))
	out := bytes.Clone(b.Payload)
	out[at+1] = 0xff
	return batchList(batch.Batch{Payload: out})
}
