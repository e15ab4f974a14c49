package splinter

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/internal/redact"
)

// TokenSource returns the token for a node, given by its base URL: the text after "Bearer " in
// the Authorization header, such as "OAuth2:abc" or "Cylinder:..."
// (docs/ledgers/splinter.md#services-tokens-and-connections). It is called once, and again by
// the first request after the node refused the token (401). It may be called concurrently for
// different nodes. After an error nothing is sent: return [dlt.ErrMisconfigured] or
// [batch.ErrInvalidInput] if a person has to act, any other error if a later try may help.
type TokenSource func(ctx context.Context, node string) (string, error)

const bearerPrefix = "Bearer "

// OAuth2Token returns a token that never changes.
func OAuth2Token(token string) TokenSource {
	return func(context.Context, string) (string, error) {
		if token == "" {
			return "", &batch.InputError{Field: "OAuth2 token", Want: "not empty"}
		}
		return "OAuth2:" + token, nil
	}
}

// CylinderToken signs a Cylinder JWT with the key of s. The token has the key's name and nothing
// else, and never expires: a person who has the token may do everything that the key may.
func CylinderToken(s sawtooth.Signer) TokenSource {
	return func(context.Context, string) (string, error) {
		jwt, err := cylinderJWT(s)
		if err != nil {
			return "", err
		}
		return "Cylinder:" + jwt, nil
	}
}

// cylinderJWT returns a JWT whose three parts are in standard base64 with padding.
func cylinderJWT(s sawtooth.Signer) (string, error) {
	claims, err := json.Marshal(struct {
		Issuer string `json:"iss"`
	}{s.PublicKey()})
	if err != nil {
		return "", fmt.Errorf("splinter: encode claims: %w", err)
	}
	b64 := base64.StdEncoding.EncodeToString
	message := b64([]byte(`{"alg":"secp256k1","typ":"cylinder+jwt"}`)) + "." + b64(claims)
	signature, err := s.Sign([]byte(message))
	if err != nil {
		return "", fmt.Errorf("splinter: sign token: %w", err)
	}
	if err := sawtooth.Verify(s.PublicKey(), []byte(message), signature); err != nil {
		return "", err
	}
	raw, err := hex.DecodeString(signature)
	if err != nil {
		return "", fmt.Errorf("splinter: signature of token: %w", err)
	}
	return message + "." + b64(raw), nil
}

// BiomeToken logs in at the node with a user's name and hashed password, again every 90
// minutes, when the node's tokens expire. A nil client means a default one.
func BiomeToken(client *http.Client, username, hashedPassword string) TokenSource {
	o := &Options{Client: client}
	hc, _ := o.httpClient()
	return func(ctx context.Context, node string) (string, error) {
		return biomeLogin(ctx, hc, node, username, hashedPassword)
	}
}

func biomeLogin(ctx context.Context, hc *http.Client, node, username, hashedPassword string) (string, error) {
	const op = "biome login"
	u, err := parseNode("node", node)
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(map[string]string{"username": username, "hashed_password": hashedPassword})
	if err != nil {
		return "", fmt.Errorf("splinter: encode credentials: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.JoinPath("biome", "login").String(), bytes.NewReader(body))
	if err != nil {
		return "", &dlt.Error{Op: op, Kind: dlt.ErrMisconfigured, Err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := hc.Do(req)
	if err != nil {
		return "", &dlt.Error{Op: op, Kind: dlt.ErrUnavailable, Err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, wire.MaxShortBody))
	switch {
	case resp.StatusCode >= 400 && resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests:
		return "", &dlt.Error{Op: op, StatusCode: resp.StatusCode, Kind: dlt.ErrMisconfigured}
	case err != nil || resp.StatusCode != http.StatusOK:
		return "", &dlt.Error{Op: op, StatusCode: resp.StatusCode, Kind: dlt.ErrUnavailable, Err: err}
	}
	var doc struct {
		Token string `json:"token"`
	}
	if json.Unmarshal(text, &doc) != nil || doc.Token == "" { // the error leaves the text out, since it may contain a token
		return "", &dlt.Error{Op: op, StatusCode: resp.StatusCode, Kind: dlt.ErrUnavailable, Message: "an answer without a token"}
	}
	if !strings.HasPrefix(doc.Token, "Biome:") {
		return "Biome:" + doc.Token, nil
	}
	return doc.Token, nil
}

// tokenCache holds the tokens of the nodes.
type tokenCache struct {
	source TokenSource

	mu    sync.Mutex
	nodes map[string]*nodeToken
}

type nodeToken struct {
	sourceSlot                  chan struct{} // holds a value while a request calls the source
	currentToken, previousToken string        // guarded by tokenCache.mu; a node may still echo previous
}

func (t *tokenCache) entry(node string) *nodeToken {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, ok := t.nodes[node]
	if !ok {
		n = &nodeToken{sourceSlot: make(chan struct{}, 1)}
		t.nodes[node] = n
	}
	return n
}

func (t *tokenCache) get(ctx context.Context, node string) (string, error) {
	if t.source == nil {
		return "", nil
	}
	n := t.entry(node)
	if token := t.cached(n); token != "" {
		return token, nil
	}
	select {
	case n.sourceSlot <- struct{}{}:
		defer func() { <-n.sourceSlot }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if token := t.cached(n); token != "" { // another request has got a token in the meantime
		return token, nil
	}
	token, err := t.source(ctx, node)
	if err != nil {
		return "", err
	}
	if token == "" || !wire.Printable(token) {
		return "", fmt.Errorf("%w: the token source returned no token that can be sent", errBadToken)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n.currentToken = token
	return token, nil
}

var errBadToken = errors.Join(errors.New("splinter: bad token"), batch.ErrInvalidInput)

func (t *tokenCache) cached(n *nodeToken) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return n.currentToken
}

// drop forgets a token that a node has refused, unless it was replaced already.
func (t *tokenCache) drop(node, authorization string) {
	if t.source == nil {
		return
	}
	n := t.entry(node)
	t.mu.Lock()
	defer t.mu.Unlock()
	if n.currentToken != "" && authorization == bearerPrefix+n.currentToken {
		n.currentToken, n.previousToken = "", n.currentToken
	}
}

// secrets returns the tokens and their parts, for redaction.
func (t *tokenCache) secrets() (out []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.nodes {
		for _, token := range [...]string{n.currentToken, n.previousToken} {
			out = append(out, redact.TokenSecrets(token)...)
		}
	}
	return out
}
