package httpapi

import (
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/services/signin"
)

// SignIn adds the sign-in routes, which differ between the APIs only in the
// forms of a signature that they accept.
func (a *App) SignIn(signIn *signin.SignIn, parseSignature func(jsontext.Value) ([]byte, error)) {
	a.Post("/auth/challenge", func(c *fiber.Ctx) error { return challenge(c, signIn) })
	a.Post("/auth/verify", func(c *fiber.Ctx) error { return verify(c, signIn, parseSignature) })
}

func challenge(c *fiber.Ctx, signIn *signin.SignIn) error {
	var body struct {
		PublicKey string `json:"publicKey"`
	}
	if err := DecodePublic(c, &body); err != nil {
		return err
	}
	challenge, err := signIn.Challenge(body.PublicKey)
	if err != nil {
		return err
	}
	return c.JSON(challenge)
}

func verify(c *fiber.Ctx, signIn *signin.SignIn, parseSignature func(jsontext.Value) ([]byte, error)) error {
	var body struct {
		PublicKey string         `json:"publicKey"`
		Message   *string        `json:"message"`
		Signature jsontext.Value `json:"signature"`
	}
	if err := DecodePublic(c, &body); err != nil {
		return err
	}
	if body.Message == nil || body.Signature == nil {
		return BadRequest("publicKey, message and signature are required")
	}
	owner, err := signin.ParsePublicKey(body.PublicKey)
	if err != nil {
		return err
	}
	signature, err := parseSignature(plainIntegers(body.Signature))
	if err != nil {
		return err
	}
	session, err := signIn.Verify(Context(c), signin.Answer{PublicKey: owner, Message: *body.Message, Signature: signature})
	if err != nil {
		return err
	}
	return c.JSON(session)
}
