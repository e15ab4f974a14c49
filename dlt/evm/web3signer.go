package evm

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"strconv"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
	"github.com/dltbatch/dltbatch/internal/redact"
)

// Web3Signer is a [Signer] whose keys are in a service: Web3Signer in its eth1 mode, or another
// service that answers eth_signTransaction with the signed transaction. It sends one request for a
// signature, never a second one, and follows no redirect. The service has to answer with exactly
// the transaction that it was asked to sign; a [SigningClient] makes sure that the account signed
// it. All methods may be called concurrently.
type Web3Signer struct {
	url          string
	shownAddress string // the URL's scheme and host
	header       http.Header
	http         *http.Client
	ownTransport bool
	secrets      *redact.Redactor
}

// Web3SignerOptions are the options of [NewWeb3Signer]. The zero value of each field is its
// default.
type Web3SignerOptions struct {
	// Client sends the requests, as [Options].Client does. Defaults to a client with a bound of 5
	// s on dialling and on the TLS handshake, and no proxy.
	Client *http.Client
	// TLSConfig is for the default client, for example with a client certificate; not allowed
	// beside Client. Defaults to the system's roots.
	TLSConfig *tls.Config
	// Header is sent with every request, for example an Authorization. Its values never appear in
	// errors. Defaults to none.
	Header http.Header
}

// NewWeb3Signer returns a signer that asks the service at address, such as http://localhost:9000.
// NewWeb3Signer opens no connection. nil options mean the defaults. The error is a
// [*batch.InputError].
func NewWeb3Signer(address string, o *Web3SignerOptions) (*Web3Signer, error) {
	var opts Options
	if o != nil {
		opts = Options{Client: o.Client, TLSConfig: o.TLSConfig, Header: o.Header.Clone()}
	}
	err := wire.CheckTLS(opts.Client, opts.TLSConfig)
	if err == nil {
		err = wire.CheckHeader(opts.Header, "Upgrade")
	}
	if in, bad := errors.AsType[*batch.InputError](err); bad {
		in.Field = "Web3Signer" + in.Field
		return nil, in
	}
	u, err := parseURL("url", address)
	if err != nil {
		return nil, err
	}
	w := &Web3Signer{url: u.String(), shownAddress: shownURL(u), header: opts.Header}
	w.secrets = redact.New(append(redact.HeaderSecrets(opts.Header), redact.URLSecrets(u)...))
	w.http, w.ownTransport = opts.httpClient()
	return w, nil
}

// CloseIdleConnections closes the connections that no request uses. The signer can be used
// afterwards.
func (w *Web3Signer) CloseIdleConnections() { w.http.CloseIdleConnections() }

// String implements [fmt.Stringer] and shows no credentials.
func (w *Web3Signer) String() string { return "evm.Web3Signer at " + w.shownAddress }

// GoString implements [fmt.GoStringer] and shows no credentials.
func (w *Web3Signer) GoString() string { return w.String() }

const opSign = "sign"

// unsignedDoc is the parameter of eth_signTransaction.
type unsignedDoc struct {
	From    string `json:"from"`
	To      string `json:"to,omitzero"` // empty for a contract's creation
	Gas     string `json:"gas"`
	Price   string `json:"gasPrice,omitzero"` // set only for type 0, instead of the next two fields
	FeeCap  string `json:"maxFeePerGas,omitzero"`
	Tip     string `json:"maxPriorityFeePerGas,omitzero"`
	Nonce   string `json:"nonce"`
	Value   string `json:"value"`
	Data    string `json:"data,omitzero"`
	ChainID string `json:"chainId"` // Web3Signer takes it from its own options; other services refuse a different one
}

// maxSignedAnswer is how many bytes of an answer are read: enough for the largest transaction in
// hex digits and the JSON around it.
const maxSignedAnswer = 2*maxTxBytes + 64<<10

// Sign implements [Signer]. Its error is a [*dlt.Error] of the kind [dlt.ErrUnavailable], or
// [dlt.ErrMisconfigured] where the service has no such account or signs for another chain. After
// an error, nothing was sent to a chain. ctx bounds the request: a [SigningClient] sets
// SignerOptions.SignTimeout.
func (w *Web3Signer) Sign(ctx context.Context, account string, tx Unsigned) (sig [65]byte, err error) {
	doc := unsignedDoc{
		From: account, To: tx.To, Gas: hexQuantity(tx.Gas), Nonce: hexQuantity(tx.Nonce), ChainID: hexQuantity(tx.ChainID),
		FeeCap: "0x" + tx.Fee.FeeCap.Text(16), Tip: "0x" + tx.Fee.Tip.Text(16), Value: "0x" + tx.Value.Text(16), Data: hexText(tx.Data),
	}
	if tx.Legacy {
		doc.Price, doc.FeeCap, doc.Tip = doc.FeeCap, "", ""
	}
	var body bytes.Buffer
	if err := writeRequest(&body, 1, request{"eth_signTransaction", []any{doc}}); err != nil {
		return sig, w.newError(dlt.ErrMisconfigured, 0, err)
	}
	status, raw, err := w.post(ctx, body.Bytes())
	if err != nil {
		return sig, err
	}
	signed, err := readSigned(raw, tx)
	if err == nil && status != http.StatusOK {
		err = errors.New("a signed transaction under another status than 200")
	}
	if err == nil {
		signed.R.FillBytes(sig[:32])
		signed.S.FillBytes(sig[32:64])
		sig[64] = signed.YParity
		return sig, nil
	}
	kind := dlt.ErrUnavailable
	if wire.Refuses(status) || errors.Is(err, errOtherTx) {
		kind = dlt.ErrMisconfigured
	}
	return sig, w.newError(kind, status, err)
}

// newError returns an error of Sign, which shows no credentials.
func (w *Web3Signer) newError(kind error, status int, err error) error {
	if status == http.StatusOK {
		status = 0
	}
	hide := func(text string) string {
		return batch.Excerpt(w.secrets.Hide(text[:min(len(text), 64<<10)]), maxText)
	}
	return &dlt.Error{Op: opSign, Kind: kind, Endpoint: w.shownAddress, StatusCode: status, Message: w.shownAddress, Err: redact.ShownError(err, hide)}
}

// post sends the request once and returns the answer, whatever its status.
func (w *Web3Signer) post(ctx context.Context, body []byte) (status int, raw []byte, err error) {
	traced, sent := wire.TraceRequest(ctx, w.ownTransport)
	req, err := http.NewRequestWithContext(traced, http.MethodPost, w.url, nil)
	if err != nil {
		return 0, nil, w.newError(dlt.ErrMisconfigured, 0, err)
	}
	maps.Copy(req.Header, w.header)
	wire.SendTraceParent(ctx, req.Header)
	req.Header["Content-Type"] = []string{"application/json"}
	wire.AcceptEncoding(req.Header)
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body)) // without GetBody, so net/http cannot send it again
	resp, err := w.http.Do(req)
	if err == nil {
		wire.Decode(resp)
		defer func() { _ = resp.Body.Close() }() // the body was read
		raw, err = io.ReadAll(io.LimitReader(resp.Body, maxSignedAnswer+1))
	}
	if err == nil && len(raw) > maxSignedAnswer {
		return 0, nil, w.newError(dlt.ErrUnavailable, resp.StatusCode, fmt.Errorf("the answer is larger than %d bytes", maxSignedAnswer))
	}
	if err != nil {
		kind := wire.KindOf(err, sent())
		if kind == dlt.ErrDoubt { //nolint:errorlint // a sentinel itself
			kind = dlt.ErrUnavailable // a signature that nobody received changes nothing
		}
		return 0, nil, w.newError(kind, 0, err)
	}
	return resp.StatusCode, raw, nil
}

// errOtherTx means that the service signed another transaction than the one asked for.
var errOtherTx = errors.New("it signed another transaction")

// readSigned reads the answer to a request for the signature of tx.
func readSigned(raw []byte, tx Unsigned) (*evmtx.Tx, error) {
	var a answerDoc
	if err := json.Unmarshal(raw, &a); err != nil {
		return nil, fmt.Errorf("no JSON: %w: %s", err, batch.Excerpt(string(raw[:min(len(raw), 1<<10)]), 100))
	}
	if a.Err != nil {
		return nil, fmt.Errorf("%s (code %d)", a.Err.Message, a.Err.Code)
	}
	var text string
	if err := json.Unmarshal(a.Result, &text); err != nil || text == "" {
		return nil, fmt.Errorf("the result is not the signed transaction: %s", batch.Excerpt(string(a.Result), 100))
	}
	digits, prefixed := strings.CutPrefix(text, "0x")
	signedBytes, err := hex.DecodeString(digits)
	if err != nil || !prefixed {
		return nil, fmt.Errorf("the result is not 0x and an even number of hex digits, but %d characters: %s", len(text), batch.Excerpt(text, 100))
	}
	signed, err := evmtx.Decode(signedBytes)
	if err != nil {
		return nil, fmt.Errorf("the result: %w", err)
	}
	if got := signed.SigningBytes(); string(got) != string(tx.Bytes) {
		return nil, fmt.Errorf("%w: %s", errOtherTx, difference(signed, tx))
	}
	return signed, nil
}

// difference names the first field in which a signed transaction differs from tx.
func difference(signed *evmtx.Tx, tx Unsigned) string {
	typ, price := evmtx.DynamicFee, "maxFeePerGas"
	if tx.Legacy {
		typ, price, tx.Fee.Tip = evmtx.Legacy, "gasPrice", signed.Tip
	}
	to := ""
	if signed.To != nil {
		to = signed.To.String()
	}
	for _, f := range [...]struct {
		name      string
		got, want string
	}{
		{"type", strconv.Itoa(int(signed.Type)), strconv.Itoa(int(typ))},
		{"chain id", strconv.FormatUint(signed.ChainID, 10), strconv.FormatUint(tx.ChainID, 10)},
		{"nonce", strconv.FormatUint(signed.Nonce, 10), strconv.FormatUint(tx.Nonce, 10)},
		{"maxPriorityFeePerGas", decimal(signed.Tip), decimal(tx.Fee.Tip)},
		{price, decimal(signed.FeeCap), decimal(tx.Fee.FeeCap)},
		{"gas", strconv.FormatUint(signed.Gas, 10), strconv.FormatUint(tx.Gas, 10)},
		{"to", to, tx.To},
		{"value", decimal(signed.Value), decimal(tx.Value)},
		{"data", hexText(signed.Data), hexText(tx.Data)},
	} {
		if f.got != f.want {
			return fmt.Sprintf("%s %s, not %s", f.name, batch.Excerpt(f.got, 50), batch.Excerpt(f.want, 50))
		}
	}
	return "with an access list"
}

func decimal(v *big.Int) string {
	if v == nil {
		return "0"
	}
	return v.String()
}
