package evmtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// replayer makes the requests of a record, byte by byte, and compares the answers.
type replayer struct {
	t              *testing.T
	url            string
	client         *http.Client
	chainID        uint64
	waitForBlock   func()                 // waits until there is another block
	doRemark       func(note string) bool // does to the node what a remark says; true if it has done so
	skippedLines   map[int]string         // lines whose answers are not compared, and why
	doBefore       map[int]func()         // steps before a line that the record does not show
	hashesByPrefix map[string]string      // full hashes by their first ten characters
	gappedAccount  Account                // the account with 120 transactions behind a gap
	gappedHashes   []string               // the hashes of these transactions
	differences    []string
	comparedCount  int
}

func (r *replayer) addDifference(number int, format string, args ...any) {
	r.differences = append(r.differences, fmt.Sprintf("line %d: ", number)+fmt.Sprintf(format, args...))
}

func (r *replayer) replayAll(lines []recordLine) {
	r.t.Helper()
	r.hashesByPrefix = sentHashes(lines)
	for _, l := range lines {
		if do := r.doBefore[l.number]; do != nil {
			do()
		}
		_, skip := r.skippedLines[l.number]
		switch {
		case l.remark == "":
			r.replayRequest(l, skip)
		case !skip:
			r.replayRemark(l)
		}
	}
	require.Empty(r.t, r.differences, "%s", strings.Join(r.differences, "\n"))
}

func (r *replayer) replayRequest(l recordLine, skip bool) {
	body := l.request
	if l.fullLength > 0 {
		body = r.completeBody(l)
	}
	kind := jsonType
	if l.answer.status == http.StatusUnsupportedMediaType || strings.Contains(l.answer.body, "Invalid request") && strings.Contains(body, "eth_chainId") {
		kind = "text/plain" // the record does not show this content type
	}
	status, contentType, got, err := r.post(body, kind)
	if l.answer.failed {
		if err == nil {
			r.addDifference(l.number, "an answer: %d %s", status, got)
		}
		return
	}
	require.NoError(r.t, err, "line %d", l.number)
	if skip {
		return
	}
	r.comparedCount++
	for _, d := range compareAnswer(l.answer, status, contentType, got) {
		r.addDifference(l.number, "%s", d)
	}
}

func (r *replayer) post(body, contentType string) (status int, kind, text string, err error) {
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url, strings.NewReader(body))
	require.NoError(r.t, err)
	req.Header.Set("Content-Type", contentType)
	res, err := r.client.Do(req)
	if err != nil {
		return 0, "", "", err
	}
	all, err := io.ReadAll(res.Body)
	require.NoError(r.t, errors.Join(err, res.Body.Close()))
	return res.StatusCode, res.Header.Get("Content-Type"), string(all), nil
}

// callMethod calls a method, and returns its result; nil is null.
func (r *replayer) callMethod(method string, params ...any) any {
	r.t.Helper()
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	require.NoError(r.t, err)
	_, _, text, err := r.post(string(body), jsonType)
	require.NoError(r.t, err)
	var got struct {
		Result any
		Error  *RPCError
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	require.NoError(r.t, d.Decode(&got))
	require.Nil(r.t, got.Error, "%s: %s", method, text)
	return got.Result
}

// completeBody completes the two requests that the record cuts off: data of 140,000 zero bytes,
// and an array without its last element. The hashes in the answers show which account signed each
// of them.
func (r *replayer) completeBody(l recordLine) string {
	if strings.HasPrefix(l.request, "[") {
		last := regexp.MustCompile(`"id":13,"result":"(0x\w+)"`).FindStringSubmatch(l.answer.body)
		require.NotNil(r.t, last)
		raw := r.signedWithHash(last[1], Unsigned{Nonce: 2, To: deadAddress, Value: big.NewInt(1)})
		begun := l.request
		if !strings.HasSuffix(begun, "}") {
			begun = begun[:strings.LastIndex(begun, ",{")]
		}
		return begun + `,{"jsonrpc":"2.0","id":13,"method":"eth_sendRawTransaction","params":["` + hexBytes(raw) + `"]}]`
	}
	raw, _ := account21.Sign(Unsigned{ChainID: r.chainID, FeeCap: big.NewInt(2e9), Gas: 16_000_000, To: deadAddress, Value: big.NewInt(1), Data: make([]byte, 140_000)})
	id := regexp.MustCompile(`"id":\d+`).FindString(l.request)
	return `{"jsonrpc":"2.0",` + id + `,"method":"eth_sendRawTransaction","params":["` + hexBytes(raw) + `"]}`
}

// account21 is the 22nd account of the mnemonic of [Dev], whose transaction is too long for the
// record.
var account21 = accountOfKey(mustBytes("0xc511b2aa70776d4ff1d376e8537903dae36896132c90b91d52c1dfbae267cd8b"))

func mustBytes(text string) []byte {
	b, ok := parseHexBytes(text)
	if !ok {
		panic(text)
	}
	return b
}

const deadAddress = "0x000000000000000000000000000000000000dead"

// signedWithHash returns the transaction u, signed by the account whose signature gives it this
// hash.
func (r *replayer) signedWithHash(hash string, u Unsigned) []byte {
	u.ChainID = r.chainID
	for i := range 10 {
		if raw, h := Dev(i).Sign(u); h == hash {
			return raw
		}
	}
	require.Fail(r.t, "nobody signed", hash)
	return nil
}

var (
	receiptNote = regexp.MustCompile(`^receipt (0x\w+) block (0x\w+) index (0x\w+) status (0x\w+)$`)
	placeNote   = regexp.MustCompile(`^(0x\w+) (?:(0x\w+)/(0x\w+)|null)$`)
	batchNote   = regexp.MustCompile(`^batch of (\d+): HTTP (\d+) (.*) \.\.\. (\d+) answers$`)
	gappedNote  = regexp.MustCompile(`^120 gapped(?: sends, answered with their hash)?: (?:accepted )?120`)
	knownNote   = regexp.MustCompile(`^known by hash: (\d+), nonces 1\.\.(\d+)$`)
	queuedNote  = regexp.MustCompile(`^queued of the account: (\d+)$`)
	noncesNote  = regexp.MustCompile(`^(\d) s after the gap was filled: account nonce (\d+) (.*)$`)
)

var (
	rawInText  = regexp.MustCompile(`"0x[0-9a-f]{100,}"`)
	hashInText = regexp.MustCompile(`"result":"(0x[0-9a-f]{64})"`)
)

// sentHashes returns the hashes of all transactions that the record sends, by their first ten
// characters.
func sentHashes(lines []recordLine) map[string]string {
	out := map[string]string{}
	for _, l := range lines {
		for _, raw := range rawInText.FindAllString(l.request, -1) {
			b, _ := parseHexBytes(strings.Trim(raw, `"`))
			h := evmtx.Keccak(b).String()
			out[h[:10]] = h
		}
		for _, h := range hashInText.FindAllStringSubmatch(l.answer.body, -1) {
			out[h[1][:10]] = h[1]
		}
	}
	return out
}

// replayRemark does what a remark says, and compares the result that the remark names.
func (r *replayer) replayRemark(l recordLine) {
	switch {
	case l.remark == "next block":
		r.waitForBlock()
	case r.doRemark != nil && r.doRemark(l.remark):
	case receiptNote.MatchString(l.remark):
		m := receiptNote.FindStringSubmatch(l.remark)
		got, _ := r.callMethod("eth_getTransactionReceipt", r.hashesByPrefix[m[1]]).(map[string]any)
		if got["blockNumber"] != m[2] || got["transactionIndex"] != m[3] || got["status"] != m[4] {
			r.addDifference(l.number, "%v", got)
		}
	case placeNote.MatchString(l.remark):
		m := placeNote.FindStringSubmatch(l.remark)
		got, _ := r.callMethod("eth_getTransactionReceipt", r.hashesByPrefix[m[1]]).(map[string]any)
		if m[2] == "" && got != nil || m[2] != "" && (got["blockNumber"] != m[2] || got["transactionIndex"] != m[3]) {
			r.addDifference(l.number, "%v", got)
		}
	case batchNote.MatchString(l.remark):
		r.replayArray(l, batchNote.FindStringSubmatch(l.remark))
	case gappedNote.MatchString(l.remark):
		for nonce := uint64(1); nonce <= 120; nonce++ {
			raw, hash := r.gappedAccount.Sign(Unsigned{ChainID: r.chainID, Nonce: nonce, FeeCap: big.NewInt(10e9), To: deadAddress, Value: big.NewInt(1)})
			if got := r.callMethod(sendMethod, hexBytes(raw)); got != hash {
				r.addDifference(l.number, "nonce %d: %v", nonce, got)
			}
			r.gappedHashes = append(r.gappedHashes, hash)
		}
	case knownNote.MatchString(l.remark):
		last, _ := strconv.Atoi(knownNote.FindStringSubmatch(l.remark)[2])
		for i, hash := range r.gappedHashes {
			if known := r.callMethod("eth_getTransactionByHash", hash) != nil; known != (i < last) {
				r.addDifference(l.number, "nonce %d is known: %v", i+1, known)
			}
		}
	case queuedNote.MatchString(l.remark):
		got := r.callMethod("txpool_contentFrom", r.gappedAccount.Address()).(map[string]any)["queued"].(map[string]any)
		if want := queuedNote.FindStringSubmatch(l.remark)[1]; strconv.Itoa(len(got)) != want {
			r.addDifference(l.number, "%d", len(got))
		}
	case noncesNote.MatchString(l.remark):
		m := noncesNote.FindStringSubmatch(l.remark)
		nonce, err := strconv.ParseUint(m[2], 10, 64)
		require.NoError(r.t, err)
		var pool any
		require.NoError(r.t, json.Unmarshal([]byte(m[3]), &pool))
		if got := r.callMethod("eth_getTransactionCount", r.gappedAccount.Address(), "latest"); got != hexNumber(nonce) {
			r.addDifference(l.number, "%v", got)
		}
		compareValues("pool", pool, r.callMethod("txpool_status"), func(f string, args ...any) { r.addDifference(l.number, f, args...) })
	default:
		return
	}
	r.comparedCount++
}

// replayArray asks for the chain's id many times in one array.
func (r *replayer) replayArray(l recordLine, m []string) {
	count, err := strconv.Atoi(m[1])
	require.NoError(r.t, err)
	var parts []string
	for i := range count {
		parts = append(parts, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"eth_chainId","params":[]}`, i+1))
	}
	status, _, text, err := r.post("["+strings.Join(parts, ",")+"]", jsonType)
	require.NoError(r.t, err)
	var got []struct {
		ID     int
		Result string
		Error  *RPCError
	}
	require.NoError(r.t, json.Unmarshal([]byte(text), &got))
	if strconv.Itoa(status) != m[2] || strconv.Itoa(len(got)) != m[4] || got[len(got)-1].ID != len(got) {
		r.addDifference(l.number, "%d, %d answers", status, len(got))
	}
	if want := strings.Contains(m[3], "batch too large"); want != (got[0].Error != nil) {
		r.addDifference(l.number, "%+v", got[0])
	}
}

// senders returns the accounts that sent transactions, with their funds, except accounts whose
// transactions were refused for lack of funds.
func senders(lines []recordLine, funds *big.Int) map[string]*big.Int {
	out := map[string]*big.Int{account21.Address(): funds}
	for i := range 10 {
		out[Dev(i).Address()] = funds
	}
	why := ""
	for _, l := range lines {
		if l.remark != "" {
			why = l.remark
		}
		for _, text := range rawInText.FindAllString(l.request, -1) {
			b, _ := parseHexBytes(strings.Trim(text, `"`))
			tx, _ := evmtx.Decode(b)
			if tx == nil || why == "no funds at all" {
				continue
			}
			if from, err := tx.Sender(); err == nil {
				out[from.String()] = funds
			}
		}
	}
	return out
}
