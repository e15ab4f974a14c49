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

// scenery is the beginnings of remarks that say nothing about the node: headings, dates, and
// results of this library.
var scenery = []string{
	"2026-11-22T", "malformed bodies", "bad batches", "places", "authorization", "headers", "statuses", "big bodies",
	"create registry", "append ", "names: ", "good, contract fails: our client's", "good, failing, good: our client's",
	"failing, good: our client's", "45 posts of", "post ",
}

// notHeld is the lines of the records that are not compared with the simulator, and the reasons.
var notHeld = map[string]string{
	"08-poison-trap.txt:8": "the service had stalled before the record begins; with what is not said",
	"18-stall.txt:16":      "the other node was down; nobody listens in virtual time",
	"14-half.txt:12":       "the test of a start that the record's own tool made",
}

func options(version int, circuits ...string) *splintertest.Options {
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
	play(t, "02-errors.txt", options(2, "aaaaa-bbbbb"), errorsOf)
	play(t, "03-dup.txt", options(2, "aaaaa-bbbbb"), duplicates)
	play(t, "03-idem.txt", options(2, "idem0-00001"), idempotent)
	flooded := options(2, "flood-00001")
	flooded.CommitInterval = 1200 * time.Millisecond // as slow as the recorded node
	play(t, "05-flood.txt", flooded, flood)
	empty := emptyBatch(t)
	foreign := tx(splintertest.Set("x", 1))
	foreign.FamilyName = "nobody"
	play(t, "08-poison-empty.txt", options(2, "poiso-00002"), func(p *player) { poison(p, empty) })
	play(t, "08-poison-family.txt", options(2, "poiso-00001"), func(p *player) { poison(p, build(t, foreign)) })
	play(t, "08-poison-trap.txt", options(2, "pois2-10001"), trap)
	play(t, "14-half.txt", options(2, "halfx-00001"), half)
	play(t, "16-multi.txt", options(2, "work0-00001"), multi)
	play(t, "17-late.txt", options(2, "pois2-10001", "pois1-10001"), late)
	play(t, "18-stall.txt", options(2, "pois2-10001", "pois1-10001"), stalled)
	for line := range notHeld {
		assert.True(t, passed[line], "%s is no line, or is held", line)
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

func errorsOf(p *player) {
	good, one := inc(p), inc(p)
	raw := func(b batch.Batch, old, repl string) []byte {
		require.Contains(p, string(b.Payload), old)
		return list(batch.Batch{Payload: bytes.Replace(b.Payload, []byte(old), []byte(repl), 1)})
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
	p.body("garbage text", []byte("not protobuf at all"))
	p.body("garbage bytes", []byte{0xff, 0xff, 0xff})
	p.body("truncated list", list(good)[:len(list(good))-7])
	p.body("empty body", nil)
	p.body("list of one empty batch", unhex("0a00"))
	p.body("a bare Batch", good.Payload)
	p.body("batch signature does not match", raw(one, id, strings.Repeat("1", 128)))
	p.body("batch signature high-S", raw(one, id, highS))
	p.body("batch id upper case", raw(one, id, strings.ToUpper(id)))
	p.body("batch signature too short", raw(one, "\x12\x80\x01"+id, "\x12\x02"+id[:2]))
	p.body("batch signature not hex", raw(one, id, "z"+id[1:]))
	p.body("batch signer is no point", raw(one, key, "02"+strings.Repeat("0", 64)))
	p.body("batch signer not hex", raw(one, key, "z"+key[1:]))
	p.body("payload digest differs", raw(one, "inc x 1", "inc x 2"))
	p.body("address not hex", raw(one, address, "z"+address[1:]))
	p.body("address odd length", raw(one, "\x2a\x46"+address, "\x2a\x46"+address[:69]+" "))
	p.body("transaction header undecodable", broken(p))
	p.body("batch header undecodable", raw(one, "\x0a\x42"+key, "\x0a\xff"+key))
	digest := inc(p)
	digest.Payload = bytes.Replace(digest.Payload, []byte("inc x 1"), []byte("inc x 3"), 1)
	p.body("list: good, bad digest, good", list(inc(p), digest, inc(p)))
	p.get("status of the two good ones")
	bad := inc(p)
	bad.Payload = bytes.Replace(bad.Payload, []byte(address), []byte("z"+address[1:]), 1)
	p.body("list: good, address not hex", list(inc(p), bad))
	p.get("status of the good one")

	for _, label := range []string{"unknown service", "unknown circuit", "malformed circuit"} {
		p.post(label, inc(p))
	}
	for _, label := range []string{"unknown circuit, status", "unknown route under service", "unknown route", "GET batches"} {
		p.get(label)
	}
	p.body("POST batch_statuses", nil)
	for range 8 {
		p.post("POST auth", inc(p))
		p.get("GET auth")
	}
	p.get("unknown route with unknown key")
	p.get("unknown route without auth")
	for range 7 {
		p.post("SplinterProtocolVersion", inc(p))
	}
	p.get("GET SplinterProtocolVersion 2")
	p.post("no Content-Type", inc(p))
	p.post("Content-Type json", inc(p))
	for _, label := range []string{
		"no ids", "ids empty", "id instead of ids", "duplicates", "%2C", "ids twice", "unknown, wait=2", "unknown, wait=false",
		"unknown, wait=0", "unknown, wait=2^64-1",
	} {
		p.get(label)
	}
	for range 7 { // the label ends with the number
		x, line := p.exchange("")
		count, err := strconv.Atoi(strings.Fields(p.note(""))[0])
		require.NoError(p, err)
		var ids []batch.Batch
		for range count {
			ids = append(ids, batch.Batch{ID: batch.ID(fmt.Sprintf("%016x", rand.Uint64()) + strings.Repeat("0", 112))})
		}
		p.call(x, line, targetOf(x, ids), nil)
	}
	for _, size := range []int{1, 11, 40, 70} {
		b := build(p, tx(splintertest.Invalid("x")))
		x, line := p.exchange(fmt.Sprint(size, " MiB"))
		p.keepPace(x)
		p.watch(p.n.Service(0), b)
		// An unknown field makes the list as long as the record's.
		padding := protowire.AppendBytes(protowire.AppendTag(list(b), 15, protowire.BytesType), make([]byte, size<<20))
		p.call(x, line, x.Request.Target, padding)
		p.seen()
	}
}

// broken returns a batch with a transaction whose header is no message.
func broken(p *player) []byte {
	b := inc(p)
	const field = "\x0a\x42" // the batcher's key in the transaction's header
	at := bytes.LastIndex(b.Payload, []byte(field))
	out := bytes.Clone(b.Payload)
	out[at+1] = 0xff
	return list(batch.Batch{Payload: out})
}
