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

// answerLookup answers a query about the chain. The query needs a client thread like any other
// request.
func (n *Node) answerLookup(w http.ResponseWriter, r *http.Request, ids []string, read func() answer) {
	named := make([]batch.ID, len(ids))
	for i, id := range ids {
		named[i] = batch.ID(id)
	}
	epoch, fault := n.beginRead(OpLookup, named)
	if !n.pause(r.Context(), fault.Delay) {
		simnode.Reset(w)
		return
	}
	n.answerTask(w, r, epoch, fault, &task{}, read)
}

// answerTask answers with the validator's result, or with the error if there is none.
func (n *Node) answerTask(w http.ResponseWriter, r *http.Request, epoch int, fault Fault, t *task, read func() answer) {
	var a answer
	t.do = func(time.Time) { a = read() }
	if err := n.runTask(r.Context(), epoch, time.Now().Add(n.options.RESTTimeout), t); err != nil {
		var ok bool
		if a, ok = answerOfError(err); !ok {
			simnode.Reset(w)
			return
		}
	}
	n.send(w, r, a, fault)
}

// serveBatch answers whether this validator's chain has a batch
// (docs/ledgers/sawtooth.md#receipts-and-lookups).
func (n *Node) serveBatch(w http.ResponseWriter, r *http.Request, id string) {
	if !isValidID(id) {
		n.send(w, r, invalidID(id), Fault{})
		return
	}
	n.answerLookup(w, r, []string{id}, func() answer {
		c, ok := n.validator.chain.batches[batch.ID(id)]
		if !ok {
			return codeAnswer(codeBatchNotFound)
		}
		return jsonAnswer(http.StatusOK, map[string]any{"data": batchJSON(c.batch), "link": linkTo(r, r.URL.Path, nil)})
	})
}

func (n *Node) serveTransaction(w http.ResponseWriter, r *http.Request, id string) {
	if !isValidID(id) {
		n.send(w, r, invalidID(id), Fault{})
		return
	}
	n.answerLookup(w, r, []string{id}, func() answer {
		c, ok := n.validator.chain.txs[id]
		if !ok {
			return codeAnswer(codeTxNotFound)
		}
		return jsonAnswer(http.StatusOK, map[string]any{"data": txJSON(c.tx), "link": linkTo(r, r.URL.Path, nil)})
	})
}

func (n *Node) serveStateAt(w http.ResponseWriter, r *http.Request, address string) {
	if len(address) != 70 || strings.Trim(address, "0123456789abcdef") != "" {
		n.send(w, r, codeAnswer(codeInvalidAddress), Fault{})
		return
	}
	n.answerLookup(w, r, []string{address}, func() answer {
		if n.validator.lacksGenesis {
			return codeAnswer(codeNotReady)
		}
		value, ok := n.validator.chain.state[address]
		if !ok {
			return codeAnswer(codeStateNotFound)
		}
		head := n.validator.chain.head()
		return jsonAnswer(http.StatusOK, map[string]any{
			"data": base64Text([]byte(value)), "head": head, "link": linkTo(r, r.URL.Path, map[string]string{"head": head}),
		})
	})
}

// serveBlocks answers with a page of blocks, the newest first: at most "limit" of them (100 by
// default), from the block "start" on, a number in hex.
func (n *Node) serveBlocks(w http.ResponseWriter, r *http.Request) {
	paging := map[string]any{"limit": nil, "start": nil}
	limit := 100
	if value, ok := queryValue(r.URL, "limit"); ok {
		var err error
		if limit, err = strconv.Atoi(value); err != nil || limit < 1 {
			n.send(w, r, codeAnswer(codeCountInvalid), Fault{})
			return
		}
		paging["limit"] = limit
	}
	start := int64(-1) // -1 means the head
	if value, ok := queryValue(r.URL, "start"); ok {
		var err error
		if start, err = strconv.ParseInt(strings.TrimPrefix(value, "0x"), 16, 64); err != nil || start < 0 {
			n.send(w, r, codeAnswer(codePagingInvalid), Fault{})
			return
		}
		paging["start"] = value
	}
	n.answerLookup(w, r, nil, func() answer {
		if n.validator.lacksGenesis {
			return codeAnswer(codeNotReady)
		}
		all := n.validator.chain.blocks
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
		head := n.validator.chain.head()
		at := func(number int) string {
			return linkTo(r, r.URL.Path, map[string]string{"head": head, "start": fmt.Sprintf("0x%016x", number), "limit": strconv.Itoa(limit)})
		}
		if last := page[0].number; last > 0 {
			paging["next_position"] = fmt.Sprintf("0x%016x", last-1)
			paging["next"] = at(last - 1)
		}
		return jsonAnswer(http.StatusOK, map[string]any{"data": data, "head": head, "link": at(int(start)), "paging": paging})
	})
}

// serveReceipts answers with the receipts of all ids or of none: one missing receipt gives 404/80.
// A fork removes no receipt (docs/ledgers/sawtooth.md#receipts-and-lookups).
func (n *Node) serveReceipts(w http.ResponseWriter, r *http.Request) {
	ids, early := n.readIDs(r, idQueryCodes{codeReceiptContentType, codeReceiptBody, codeReceiptIDMissing})
	if early != nil {
		n.send(w, r, *early, Fault{})
		return
	}
	if value, ok := queryValue(r.URL, "wait"); ok && !strings.EqualFold(value, "false") {
		n.send(w, r, exceptionAnswer(), Fault{}) // the validator's request for receipts has no such field
		return
	}
	n.answerLookup(w, r, ids, func() answer {
		data := make([]any, 0, len(ids))
		for _, id := range ids {
			c, ok := n.validator.chain.receipts[id]
			if !ok {
				return codeAnswer(codeReceiptNotFound)
			}
			changes := make([]any, 0, len(c.writes))
			for _, x := range c.writes {
				changes = append(changes, map[string]any{"address": x.address, "type": "SET", "value": base64Text([]byte(x.value))})
			}
			data = append(data, map[string]any{"id": id, "data": []any{}, "events": []any{}, "state_changes": changes})
		}
		envelope := map[string]any{"data": data}
		if r.Method != http.MethodPost {
			envelope["link"] = linkTo(r, r.URL.Path, nil)
		}
		return jsonAnswer(http.StatusOK, envelope)
	})
}

// serveLiveness answers the liveness probe. The probe uses other threads, so it works while the
// client threads are busy, but not while the validator is down.
func (n *Node) serveLiveness(w http.ResponseWriter, r *http.Request) {
	var epoch int
	n.whileLocked(func(time.Time) { epoch = n.validator.restartCount })
	n.answerTask(w, r, epoch, Fault{}, &task{hasOwnThread: true}, func() answer {
		return jsonAnswer(http.StatusOK, map[string]any{
			"data": map[string]any{"endpoint": "tcp://127.0.0.1:8800", "peers": []any{}},
			"link": linkTo(r, r.URL.Path, nil),
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
			"batch_ids": ids, "block_num": strconv.Itoa(b.number), "consensus": base64Text([]byte("Devmode")),
			"previous_block_id": b.previousID, "signer_public_key": "", "state_root_hash": b.id[:64],
		},
		"header_signature": b.id,
	}
}

func batchJSON(b *submittedBatch) map[string]any {
	txs := make([]any, 0, len(b.txs))
	for _, tx := range b.txs {
		txs = append(txs, txJSON(tx))
	}
	return map[string]any{
		"header":           map[string]any{"signer_public_key": b.header.GetSignerPublicKey(), "transaction_ids": emptyIfNil(b.header.GetTransactionIds())},
		"header_signature": string(b.id),
		"trace":            b.raw.GetTrace(),
		"transactions":     txs,
	}
}

func txJSON(tx submittedTx) map[string]any {
	h := tx.header
	return map[string]any{
		"header": map[string]any{
			"batcher_public_key": h.GetBatcherPublicKey(), "dependencies": emptyIfNil(h.GetDependencies()),
			"family_name": h.GetFamilyName(), "family_version": h.GetFamilyVersion(),
			"inputs": emptyIfNil(h.GetInputs()), "nonce": h.GetNonce(), "outputs": emptyIfNil(h.GetOutputs()),
			"payload_sha512": h.GetPayloadSha512(), "signer_public_key": h.GetSignerPublicKey(),
		},
		"header_signature": tx.id,
		"payload":          base64Text(tx.raw.GetPayload()),
	}
}

// emptyIfNil returns an empty list for nil, so that JSON has [] and not null.
func emptyIfNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func base64Text(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
