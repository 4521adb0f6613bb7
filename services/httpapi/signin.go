package httpapi

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/services/signin"
)

// SignIn adds the sign-in routes. Between the APIs they differ only in the signature
// forms that they accept.
func (a *App) SignIn(signIn *signin.SignIn, parseSignature func(jsontext.Value) ([]byte, error)) {
	a.Post("/auth/challenge", func(c *fiber.Ctx) error { return challenge(c, signIn) })
	a.Post("/auth/verify", func(c *fiber.Ctx) error { return verify(c, signIn, parseSignature) })
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

func verify(c *fiber.Ctx, signIn *signin.SignIn, parseSignature func(jsontext.Value) ([]byte, error)) error {
	answer, err := signedChallenge(c, parseSignature, strict)
	if err != nil {
		return err
	}
	session, err := signIn.Verify(Context(c), answer)
	return Answered(c, session, err)
}

// SignedChallenge reads a challenge that a wallet signed, on a route other than sign-in.
func SignedChallenge(c *fiber.Ctx, parseSignature func(jsontext.Value) ([]byte, error)) (signin.Answer, error) {
	return signedChallenge(c, parseSignature, known)
}

func signedChallenge(c *fiber.Ctx, parseSignature func(jsontext.Value) ([]byte, error), options json.Options) (signin.Answer, error) {
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
	signature, err := parseSignature(plainIntegers(body.Signature))
	if err != nil {
		return signin.Answer{}, err
	}
	return signin.Answer{PublicKey: owner, Message: *body.Message, Signature: signature}, nil
}
