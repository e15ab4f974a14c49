package sawtooth

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

const fuzzKey = "2f1e7b7a130d7ba9da0068b3bb0ba1d79e7e77110302c9f746c3c2a63fe40088"

func fuzzBatch(f *testing.F) batch.Batch {
	key, err := ParsePrivateKey(fuzzKey)
	require.NoError(f, err)
	b, err := Build(key, "", Transaction{
		FamilyName: "intkey", FamilyVersion: "1.0", Inputs: []string{"1cf126", ""}, Outputs: []string{"1cf126"},
		Dependencies: []string{strings.Repeat("ab", 64)}, Payload: []byte("hello"),
	})
	require.NoError(f, err)
	return b
}

// For any bytes there is no panic, each error is an InputError, and Parse returns the fields that
// Check accepts.
func FuzzParse(f *testing.F) {
	b := fuzzBatch(f)
	f.Add(b.Payload)
	f.Add(b.Payload[:len(b.Payload)-1])
	f.Add(append([]byte{0x0a, 0x00}, b.Payload...))
	f.Add([]byte{0x1a, 0x00, 0x1a, 0x00})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, payload []byte) {
		p, err := Parse(payload, "s")
		checkErr := Check(batch.Batch{ID: b.ID, Payload: payload})
		for _, err := range []error{err, checkErr} {
			var inputErr *batch.InputError
			if err != nil && !errors.As(err, &inputErr) {
				t.Fatalf("not an InputError: %v", err)
			}
			if err != nil && len(err.Error()) > 1024 {
				t.Fatalf("unbounded error: %v", err)
			}
		}
		if checkErr == nil && (err != nil || p.ID != b.ID) {
			t.Fatalf("Check accepts what Parse does not: %v", err)
		}
		if err != nil {
			return
		}
		if !bytes.Equal(p.Payload, payload) || !isID(string(p.ID)) {
			t.Fatal("Parse changes bytes")
		}
		if err := Check(p); err == nil && p.ID != b.ID {
			t.Fatal("a batch that nobody signed passes")
		}
	})
}

func FuzzSplitBatchList(f *testing.F) {
	b := fuzzBatch(f)
	one := append(batchListHeader(len(b.Payload)), b.Payload...)
	f.Add(one)
	f.Add(append(bytes.Clone(one), one...))
	f.Add(append([]byte{0x12, 0x01, 0x00}, one...))
	f.Add(one[:len(one)-1])
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, list []byte) {
		batches, err := SplitBatchList(list, "")
		if err != nil {
			if !errors.Is(err, batch.ErrInvalidInput) || batches != nil {
				t.Fatalf("%v beside %d batches", err, len(batches))
			}
			return
		}
		at := 0
		for _, b := range batches {
			i := bytes.Index(list[at:], b.Payload)
			if i < 0 {
				t.Fatal("a payload is not part of the list, in order")
			}
			at += i + len(b.Payload)
		}
		if len(batches) == 0 {
			t.Fatal("nothing, and no error")
		}
	})
}

func FuzzStatuses(f *testing.F) {
	id := batch.ID(strings.Repeat("0a", 64))
	for _, s := range []string{
		`{"data": [{"id": "` + string(id) + `", "status": "INVALID", "invalid_transactions": [{"id": "t", "message": "m", "extended_data": "ZXJyb3I="}]}]}`,
		`{"data": [{"id": "` + string(id) + `", "status": "COMMITTED"}], "link": {"x": [1, null]}}`,
		`{"data": [{"id": 1}, null, {"id": "` + string(id) + `", "status": "PENDING"}`, `{"data": null}`, `[[[[`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := decodeStatuses(bytes.NewReader(body), 4096, []batch.ID{id})
		if len(got) > 1 || (len(got) == 1 && (got[0].ID != id || got[0].Reported == 0)) {
			t.Fatalf("answers nobody asked for: %v", got)
		}
		if len(body) > 4096 && err == nil {
			// Bytes after a complete document are not read.
			return
		}
		for _, s := range got {
			if len(s.Message) > maxText {
				t.Fatal("unbounded message")
			}
		}
	})
}

func FuzzEnvelope(f *testing.F) {
	f.Add(400, "application/json", []byte(`{"error": {"code": 30, "message": "no", "title": "t"}}`))
	f.Add(400, "text/plain", []byte("400: Bad Request"))
	f.Add(202, "", []byte(`{"link": "http://host/batch_statuses?id"}`))
	f.Add(408, "application/json; charset=utf-8", []byte(`{"error": {"code": 1e99}}`))
	f.Fuzz(func(t *testing.T, status int, contentType string, body []byte) {
		e := parseEnvelope(contentType, body)
		v := classify(status, e.code, nil, e.bodyForm, time.Time{})
		if (v.Kind == nil) != (status == http.StatusAccepted) {
			t.Fatalf("%d is %v", status, v.Kind)
		}
		if status/100 == 5 && !errors.Is(v.Kind, dlt.ErrDoubt) {
			t.Fatalf("%d is certain", status)
		}
	})
}

func FuzzRetryAfter(f *testing.F) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, s := range []string{"", "0", "120", "-1", "99999999999999999999", "Sun, 01 Mar 2026 12:00:30 GMT", "Sun, 01 Mar 9999 12:00:30 GMT", "١٢"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d := wire.RetryAfter(http.Header{"Retry-After": {s}}, now); d < 0 || d > wire.MaxRetryAfter {
			t.Fatalf("%q is %s", s, d)
		}
	})
}

// The body of a request is the BatchList, whatever the sizes of the reads.
func FuzzFrame(f *testing.F) {
	f.Add([]byte("payload"), 1)
	f.Add(bytes.Repeat([]byte("x"), 300), 7)
	f.Fuzz(func(t *testing.T, payload []byte, size int) {
		if len(payload) == 0 || size < 1 || size > 4096 {
			return
		}
		got, err := io.ReadAll(chunkReader{&batchListBody{unread: [][]byte{batchListHeader(len(payload)), payload}}, size})
		if err != nil || len(got) != batchListSize(len(payload)) || !bytes.HasSuffix(got, payload) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	})
}

type chunkReader struct {
	r    io.Reader
	size int
}

func (c chunkReader) Read(p []byte) (int, error) { return c.r.Read(p[:min(len(p), c.size)]) }

// For any message of a websocket there is no panic, an error's text is limited, and a block has an
// id.
func FuzzEventMessage(f *testing.F) {
	for _, s := range []string{
		`{"block_id":"ab","block_num":"10","previous_block_id":"aa","state_changes":[{"address":"00","type":"SET","value":""}],"fork_detected":true}`,
		`{"warning":"Validator unavailable"}`, `{"error":"Unknown action"}`, `{"error":"a\n\u0007b"}`, `{}`, `null`, `[]`, `{"block_id":1}`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := decodeMessage(text)
		if err != nil {
			if m != (eventMessage{}) || err.Error() != batch.Excerpt(err.Error(), 2*maxText) {
				t.Fatalf("%+v beside %q", m, err)
			}
			return
		}
		if (m.id == "") != m.isWarning {
			t.Fatalf("%+v is neither a block nor a warning", m)
		}
		chain := lastBlock{id: "aa"}
		switch l := chain.linkOf(m); {
		case !m.isWarning && chain.id != m.id:
			t.Fatal("the chain does not go on")
		case l == nextBlock && m.previousID != "aa", l == sameBlock && m.id != "aa", l == firstBlock:
			t.Fatalf("%+v after aa is %d", m, l)
		}
	})
}

// The decoded receipts are those of the asked transactions, one each in their order, or there is
// an error.
func FuzzReceipts(f *testing.F) {
	one, two := strings.Repeat("0a", 64), strings.Repeat("0b", 64)
	for _, s := range []string{
		`{"data": [{"id": "` + two + `", "data": ["ZXJyb3I="], "events": [{"event_type": "x"}]}, {"id": "` + one + `", "state_changes": []}]}`,
		`{"data": [{"id": "` + one + `"}, {"id": "` + one + `"}]}`, `{"data": [null, 3]}`, `{"data": {}}`, `{"error": {"code": 80}}`, `[`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := decodeReceipts(&wire.BoundedReader{R: bytes.NewReader(body), Left: 4096}, []string{one, two})
		if err != nil {
			if got != nil {
				t.Fatalf("%v beside %v", got, err)
			}
			return
		}
		if len(got) != 2 || got[0].TransactionID != one || got[1].TransactionID != two {
			t.Fatalf("receipts nobody asked for: %v", got)
		}
		for _, r := range got {
			if !r.Valid || len(r.Data) > maxReceipt || !json.Valid(r.Data) {
				t.Fatalf("%+v", r)
			}
		}
	})
}

// A page is an answer only if it is about the id that was asked for.
func FuzzLookup(f *testing.F) {
	id := strings.Repeat("0a", 64)
	f.Add([]byte(`{"data": {"header_signature": "` + id + `", "header": {"transaction_ids": ["x"]}}}`))
	f.Add([]byte(`{"data": {"header_signature": null}}`))
	f.Add([]byte(`{"data": []}`))
	f.Add([]byte(`<html>`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := decodeLookup(bytes.NewReader(body), 4096, id)
		if (err == nil) != got.isInChain || (err != nil && got.transactions != nil) {
			t.Fatalf("%+v, %v", got, err)
		}
	})
}
