package sawtoothtest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
)

// Some bytes that are no BatchList are read as an empty list.
func TestBytesReadAsAnEmptyList(t *testing.T) {
	n := Start(t, nil)
	post := func(body []byte) response {
		return sendRequest(t, http.MethodPost, n.URL()+"/batches", "application/octet-stream", body)
	}
	good := makeBatch(t, intkeyTx(Set("x", 1)))
	list := marshal(t, &pb.BatchList{Batches: []*pb.Batch{good}})
	for name, body := range map[string][]byte{
		"text": []byte("hello world, this is not a batch"), "zeros": make([]byte, 10_000_000), "an unknown field": {0x2a, 1, 'x'},
	} {
		r := post(body)
		assert.Equal(t, http.StatusAccepted, r.status, name)
		assert.Equal(t, n.URL()+"/batch_statuses?id", r.json["link"], name)
	}
	for name, body := range map[string][]byte{
		"half a tag": {0xff}, "cut": list[:len(list)-7], "field 0": {1, 2}, "no batch in it": {10, 1, 0xff}, "text in the batch": append([]byte{10, 11}, "hello world"...),
	} {
		assert.Equal(t, codeBadProtobuf, post(body).code(), name)
	}
	assert.Equal(t, codeNoBatches, post(nil).code())
	// The batches before such bytes count.
	r := post(append(list, "hello world"...))
	assert.Equal(t, http.StatusAccepted, r.status)
	assert.True(t, strings.HasSuffix(r.json["link"].(string), "?id="+good.GetHeaderSignature()))
}

// The request line and each header may have up to 8190 bytes.
func TestTooLongRequestLines(t *testing.T) {
	n := Start(t, nil)
	fits := strings.Repeat("a", 8190-len("/batch_statuses?id="))
	assert.Equal(t, codeInvalidID, sendRequest(t, "GET", n.URL()+"/batch_statuses?id="+fits, "", nil).code())
	for path, contentType := range map[string]string{"/batch_statuses?id=a" + fits: "", "/status": fits + strings.Repeat("a", 20)} {
		r := sendRequest(t, "GET", n.URL()+path, contentType, nil)
		assert.Equal(t, http.StatusBadRequest, r.status)
		assert.Equal(t, "text/html; charset=utf-8", r.contentType)
		assert.Contains(t, r.body, "Got more than 8190 bytes when reading ")
	}
	assert.Equal(t, codeSubmitContentType, sendRequest(t, "POST", n.URL()+"/batches", "Application/Octet-Stream", []byte("x")).code(), "the case of a type counts")
}

// unsignedBatch returns a batch for a node that does not verify signatures.
func unsignedBatch(t testing.TB, i int) *pb.Batch {
	t.Helper()
	tx := intkeyTx(Set("x", int64(i)))
	id := fmt.Sprintf("%0128x", i)
	return &pb.Batch{
		Header: marshal(t, &pb.BatchHeader{TransactionIds: []string{id}}), HeaderSignature: id,
		Transactions: []*pb.Transaction{{Header: marshal(t, tx.header), HeaderSignature: id, Payload: tx.payload}},
	}
}

// The limit of the pool shrinks from 300 to 10 with one batch per block, and stays there, whatever
// comes, until the validator is restarted.
func TestPoolLimitShrinks(t *testing.T) {
	runInBubble(t, Options{SkipVerify: true}, func(t *testing.T, n *Node) {
		made := 0
		next := func() *pb.Batch { made++; return unsignedBatch(t, made) }
		fill := func() (taken int) {
			for {
				r := postInBubble(t, n, next())
				if r.status != http.StatusAccepted {
					require.Equal(t, codeQueueFull, r.code())
					assert.Equal(t, "Unable to Accept Batches", r.json["error"].(map[string]any)["title"])
					return taken
				}
				taken++
			}
		}
		for range 40 {
			submitInBubble(t, n, next())
			time.Sleep(time.Second)
		}
		assert.Equal(t, 10, fill())
		time.Sleep(time.Second)
		assert.Equal(t, 10, fill())
		time.Sleep(time.Second)
		var list []*pb.Batch
		for range 25 {
			list = append(list, next())
		}
		submitInBubble(t, n, list...)
		assert.Equal(t, 25, n.PoolLen(), "one list overshoots")
		n.KillValidator()
		n.StartValidator()
		time.Sleep(time.Second)
		for range 298 {
			list = append(list, next())
		}
		submitInBubble(t, n, list[25:]...)
		assert.Equal(t, 2, fill(), "300 again")
	})
}

// Every transaction that fails is listed. Once one has failed, a transaction that has to wait for
// an earlier one of the batch is not executed.
func TestAllFailuresAreListed(t *testing.T) {
	runInBubble(t, Options{}, func(t *testing.T, n *Node) {
		b := makeBatch(t, intkeyTx(Inc("a", 1)), intkeyTx(Set("b", 1)), intkeyTx(Inc("c", 1)), intkeyTx(Inc("a", 1)))
		submitInBubble(t, n, b)
		time.Sleep(time.Second)
		listed := func() (ids []string) {
			r := askWait(t, n, b, "")
			entry := r.json["data"].([]any)[0].(map[string]any)
			require.Equal(t, Invalid, entry["status"])
			for _, x := range entry["invalid_transactions"].([]any) {
				m := x.(map[string]any)
				ids = append(ids, m["id"].(string))
				assert.Contains(t, m["message"], `Verb is "inc" but name "`)
				assert.NotContains(t, m, "extended_data")
			}
			return ids
		}
		once := []string{txID(b, 0), txID(b, 2)}
		assert.Equal(t, once, listed())
		time.Sleep(time.Minute)
		assert.Equal(t, once, listed(), "nothing happens without a block")
	})
}

// The first status after a 202 is PENDING on an idle node. Under load some first statuses are
// UNKNOWN, the same ones with the same seed, for less than a block.
func TestFirstStatus(t *testing.T) {
	runInBubble(t, Options{BlockInterval: time.Hour, SkipVerify: true}, func(t *testing.T, n *Node) {
		unknown := 0
		var last *pb.Batch
		for i := range 110 {
			last = unsignedBatch(t, i)
			submitInBubble(t, n, last)
			word := n.Status(batchID(last))
			if i < 9 {
				require.Equal(t, Pending, word, "not busy yet")
			}
			if word == Unknown {
				unknown++
				require.Contains(t, n.validator.inPool, batchID(last), "it is in the pool all the same")
			}
		}
		assert.InDelta(t, 15, unknown, 14, "3 of 20")
		time.Sleep(time.Hour - 1)
		for i := range 110 {
			require.Equal(t, Pending, n.Status(batchID(unsignedBatch(t, i))))
		}
	})
}
