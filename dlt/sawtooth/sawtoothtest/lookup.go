package sawtoothtest

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/internal/simnode"
)

// lookup answers a query to the chain. It takes a client thread like any other request.
func (n *Node) lookup(w http.ResponseWriter, r *http.Request, ids []string, read func() answer) {
	named := make([]batch.ID, len(ids))
	for i, id := range ids {
		named[i] = batch.ID(id)
	}
	epoch, fault := n.admit(OpLookup, named)
	if !n.pause(r.Context(), fault.Delay) {
		simnode.Reset(w)
		return
	}
	n.ticketed(w, r, epoch, fault, &ticket{}, read)
}

// ticketed answers with the validator's result, or with the error if there is none.
func (n *Node) ticketed(w http.ResponseWriter, r *http.Request, epoch int, fault Fault, t *ticket, read func() answer) {
	var a answer
	t.run = func(time.Time) { a = read() }
	if err := n.call(r.Context(), epoch, time.Now().Add(n.o.RESTTimeout), t); err != nil {
		var ok bool
		if a, ok = unanswered(err); !ok {
			simnode.Reset(w)
			return
		}
	}
	n.send(w, r, a, fault)
}

// batchByID is the authoritative answer whether this validator's chain has a batch
// (docs/ledgers/sawtooth.md#receipts-and-lookups).
func (n *Node) batchByID(w http.ResponseWriter, r *http.Request, id string) {
	if !validID(id) {
		n.send(w, r, invalidID(id), Fault{})
		return
	}
	n.lookup(w, r, []string{id}, func() answer {
		c, ok := n.v.chain.batches[batch.ID(id)]
		if !ok {
			return codeAnswer(codeBatchNotFound)
		}
		return jsonAnswer(http.StatusOK, map[string]any{"data": batchJSON(c.batch), "link": link(r, r.URL.Path, nil)})
	})
}

func (n *Node) txByID(w http.ResponseWriter, r *http.Request, id string) {
	if !validID(id) {
		n.send(w, r, invalidID(id), Fault{})
		return
	}
	n.lookup(w, r, []string{id}, func() answer {
		c, ok := n.v.chain.txs[id]
		if !ok {
			return codeAnswer(codeTxNotFound)
		}
		return jsonAnswer(http.StatusOK, map[string]any{"data": txJSON(c.tx), "link": link(r, r.URL.Path, nil)})
	})
}

func (n *Node) stateAt(w http.ResponseWriter, r *http.Request, address string) {
	if len(address) != 70 || strings.Trim(address, "0123456789abcdef") != "" {
		n.send(w, r, codeAnswer(codeInvalidAddress), Fault{})
		return
	}
	n.lookup(w, r, []string{address}, func() answer {
		if n.v.noGenesis {
			return codeAnswer(codeNotReady)
		}
		value, ok := n.v.chain.state[address]
		if !ok {
			return codeAnswer(codeStateNotFound)
		}
		head := n.v.chain.head()
		return jsonAnswer(http.StatusOK, map[string]any{
			"data": b64([]byte(value)), "head": head, "link": link(r, r.URL.Path, map[string]string{"head": head}),
		})
	})
}

// blocks answers a page of blocks, the newest first: "limit" of them (100 by default), from
// the block "start" on, a number in hex.
func (n *Node) blocks(w http.ResponseWriter, r *http.Request) {
	paging := map[string]any{"limit": nil, "start": nil}
	limit := 100
	if value, ok := query(r.URL, "limit"); ok {
		var err error
		if limit, err = strconv.Atoi(value); err != nil || limit < 1 {
			n.send(w, r, codeAnswer(codeCountInvalid), Fault{})
			return
		}
		paging["limit"] = limit
	}
	start := int64(-1) // the head
	if value, ok := query(r.URL, "start"); ok {
		var err error
		if start, err = strconv.ParseInt(strings.TrimPrefix(value, "0x"), 16, 64); err != nil || start < 0 {
			n.send(w, r, codeAnswer(codePagingInvalid), Fault{})
			return
		}
		paging["start"] = value
	}
	n.lookup(w, r, nil, func() answer {
		if n.v.noGenesis {
			return codeAnswer(codeNotReady)
		}
		all := n.v.chain.blocks
		if start >= int64(len(all)) {
			return codeAnswer(codePagingInvalid)
		}
		if start < 0 {
			start = int64(len(all)) - 1
		}
		page := all[max(0, int(start)+1-limit) : start+1]
		data := make([]any, 0, len(page))
		for _, b := range slices.Backward(page) {
			data = append(data, blockJSON(b))
		}
		head := n.v.chain.head()
		at := func(number int) string {
			return link(r, r.URL.Path, map[string]string{"head": head, "start": fmt.Sprintf("0x%016x", number), "limit": strconv.Itoa(limit)})
		}
		if last := page[0].num; last > 0 {
			paging["next_position"] = fmt.Sprintf("0x%016x", last-1)
			paging["next"] = at(last - 1)
		}
		return jsonAnswer(http.StatusOK, map[string]any{"data": data, "head": head, "link": at(int(start)), "paging": paging})
	})
}

// receipts answers for all ids or for none: one missing receipt gives 404/80. A fork removes
// no receipt (docs/ledgers/sawtooth.md#receipts-and-lookups).
func (n *Node) receipts(w http.ResponseWriter, r *http.Request) {
	ids, early := n.readIDs(r, idQuery{codeReceiptContentType, codeReceiptBody, codeReceiptIDMissing})
	if early != nil {
		n.send(w, r, *early, Fault{})
		return
	}
	if value, ok := query(r.URL, "wait"); ok && !strings.EqualFold(value, "false") {
		n.send(w, r, plain500(), Fault{}) // the request message has no such field
		return
	}
	n.lookup(w, r, ids, func() answer {
		data := make([]any, 0, len(ids))
		for _, id := range ids {
			c, ok := n.v.chain.receipts[id]
			if !ok {
				return codeAnswer(codeReceiptNotFound)
			}
			changes := make([]any, 0, len(c.writes))
			for _, x := range c.writes {
				changes = append(changes, map[string]any{"address": x.address, "type": "SET", "value": b64([]byte(x.value))})
			}
			data = append(data, map[string]any{"id": id, "data": []any{}, "events": []any{}, "state_changes": changes})
		}
		envelope := map[string]any{"data": data}
		if r.Method != http.MethodPost {
			envelope["link"] = link(r, r.URL.Path, nil)
		}
		return jsonAnswer(http.StatusOK, envelope)
	})
}

// status is the liveness probe. Other threads answer it, so it works while the client threads
// are held, but not while the validator is down.
func (n *Node) status(w http.ResponseWriter, r *http.Request) {
	var epoch int
	n.locked(func(time.Time) { epoch = n.v.epoch })
	n.ticketed(w, r, epoch, Fault{}, &ticket{aside: true}, func() answer {
		return jsonAnswer(http.StatusOK, map[string]any{
			"data": map[string]any{"endpoint": "tcp://127.0.0.1:8800", "peers": []any{}},
			"link": link(r, r.URL.Path, nil),
		})
	})
}

func blockJSON(b block) map[string]any {
	ids, batches := make([]any, 0, len(b.batches)), make([]any, 0, len(b.batches))
	for _, s := range b.batches {
		ids = append(ids, string(s.id))
		batches = append(batches, batchJSON(s))
	}
	return map[string]any{
		"batches": batches,
		"header": map[string]any{
			"batch_ids": ids, "block_num": strconv.Itoa(b.num), "consensus": b64([]byte("Devmode")),
			"previous_block_id": b.previous, "signer_public_key": "", "state_root_hash": b.id[:64],
		},
		"header_signature": b.id,
	}
}

func batchJSON(b *submitted) map[string]any {
	txs := make([]any, 0, len(b.txs))
	for _, tx := range b.txs {
		txs = append(txs, txJSON(tx))
	}
	return map[string]any{
		"header":           map[string]any{"signer_public_key": b.header.GetSignerPublicKey(), "transaction_ids": list(b.header.GetTransactionIds())},
		"header_signature": string(b.id),
		"trace":            b.raw.GetTrace(),
		"transactions":     txs,
	}
}

func txJSON(tx submittedTx) map[string]any {
	h := tx.header
	return map[string]any{
		"header": map[string]any{
			"batcher_public_key": h.GetBatcherPublicKey(), "dependencies": list(h.GetDependencies()),
			"family_name": h.GetFamilyName(), "family_version": h.GetFamilyVersion(),
			"inputs": list(h.GetInputs()), "nonce": h.GetNonce(), "outputs": list(h.GetOutputs()),
			"payload_sha512": h.GetPayloadSha512(), "signer_public_key": h.GetSignerPublicKey(),
		},
		"header_signature": tx.id,
		"payload":          b64(tx.raw.GetPayload()),
	}
}

// list makes an empty list [] and not null.
func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func b64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
