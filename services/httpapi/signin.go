package httpapi

import (
	"crypto/ed25519"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/services/signin"
)

// SignIn adds the sign-in routes. Between the APIs they differ only in whether a signature
// may also be a list of numbers.
func (a *App) SignIn(signIn *signin.SignIn, lists bool) {
	a.Post("/auth/challenge", func(c *fiber.Ctx) error { return challenge(c, signIn) })
	a.Post("/auth/verify", func(c *fiber.Ctx) error {
		answer, err := signedChallenge(c, lists, strict)
		if err != nil {
			return err
		}
		session, err := signIn.Verify(Context(c), answer)
		return Answered(c, session, err)
	})
}

func challenge(c *fiber.Ctx, signIn *signin.SignIn) error {
	var body struct {
		PublicKey string  `json:"publicKey"`
		Purpose   *string `json:"purpose"`
	}
	if err := DecodeSignIn(c, &body); err != nil {
		return err
	}
	purpose := signin.PurposeSignIn
	if body.Purpose != nil {
		purpose = signin.Purpose(*body.Purpose)
	}
	challenge, err := signIn.Challenge(body.PublicKey, purpose)
	return Answered(c, challenge, err)
}

// SignedChallenge reads a challenge that a wallet signed, on a route other than sign-in.
func SignedChallenge(c *fiber.Ctx) (signin.Answer, error) { return signedChallenge(c, false, known) }

func signedChallenge(c *fiber.Ctx, lists bool, options json.Options) (signin.Answer, error) {
	var body struct {
		PublicKey string         `json:"publicKey"`
		Message   *string        `json:"message"`
		Signature jsontext.Value `json:"signature"`
	}
	if err := decode(c, &body, publicBody, options); err != nil {
		return signin.Answer{}, err
	}
	if body.Message == nil || body.Signature == nil {
		return signin.Answer{}, BadRequest("publicKey, message and signature are required")
	}
	owner, err := signin.ParsePublicKey(body.PublicKey)
	if err != nil {
		return signin.Answer{}, err
	}
	signature, err := signatureOf(body.Signature, lists)
	if err != nil {
		return signin.Answer{}, err
	}
	return signin.Answer{PublicKey: owner, Message: *body.Message, Signature: signature}, nil
}

// signatureOf decodes a signature in base58, or a list of its bytes.
func signatureOf(raw jsontext.Value, lists bool) ([]byte, error) {
	var text string
	var numbers []int
	switch {
	case raw.Kind() == '"' && json.Unmarshal(raw, &text) == nil:
		return signin.ParseSignature(text)
	case !lists, raw.Kind() != '[', json.Unmarshal(raw, &numbers, strict) != nil, len(numbers) != ed25519.SignatureSize:
		return nil, signin.ErrSignatureForm
	}
	signature := make([]byte, len(numbers))
	for i, n := range numbers {
		if signature[i] = byte(n); int(signature[i]) != n {
			return nil, signin.ErrSignatureForm
		}
	}
	return signature, nil
}
