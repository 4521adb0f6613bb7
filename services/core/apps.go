package core

import (
	"errors"
	"net/http"
	"slices"

	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/httpapi"
	"github.com/memory-ledger/ledger/services/httpapi/connect"
	"github.com/memory-ledger/ledger/services/memory"
	"github.com/memory-ledger/ledger/services/oauth"
)

// serverMetadataPath is where apps find the routes of OAuth (RFC 8414).
const serverMetadataPath = "/.well-known/oauth-authorization-server"

func (a *API) serverMetadata(c *fiber.Ctx) error {
	return c.JSON(fiber.Map{
		"issuer":                 a.BaseURL,
		"authorization_endpoint": a.BaseURL + "/oauth/authorize",
		"token_endpoint":         a.BaseURL + "/oauth/token",
		"registration_endpoint":  a.BaseURL + "/oauth/register",
		"revocation_endpoint":    a.BaseURL + "/oauth/revoke",

		"scopes_supported":         events.AllScopes,
		"response_types_supported": []string{"code"},
		"response_modes_supported": []string{"query"},
		"grant_types_supported":    []string{"authorization_code", "refresh_token"},

		"token_endpoint_auth_methods_supported":          []string{"none"},
		"revocation_endpoint_auth_methods_supported":     []string{"none"},
		"code_challenge_methods_supported":               []string{"S256"},
		"authorization_response_iss_parameter_supported": true,
		"client_id_metadata_document_supported":          true,
	})
}

func (a *API) registerApp(c *fiber.Ctx) error {
	var body struct {
		Name         string   `json:"client_name"`
		RedirectURIs []string `json:"redirect_uris"`
	}
	if err := httpapi.DecodeSignIn(c, &body); err != nil {
		if status, message := httpapi.Answer(err); status == http.StatusBadRequest {
			err = &oauth.Error{Code: "invalid_client_metadata", Description: message}
		}
		return err
	}
	registered, err := a.Apps.Register(body.Name, body.RedirectURIs)
	if err != nil {
		return err
	}
	return c.Status(http.StatusCreated).JSON(registered)
}

// appRequest reads the authorization request in the query.
func (a *API) appRequest(c *fiber.Ctx) (*oauth.Request, error) {
	var repeated error
	request, err := a.Apps.Parse(httpapi.Context(c), func(name string) string {
		value, _, err := httpapi.Query(c, name)
		repeated = errors.Join(repeated, err)
		return value
	})
	return request, errors.Join(repeated, err)
}

// showConsent shows who asks for what. A browser whose request is refused gets a page, and
// is not sent to the app: anyone may register an app with any address.
func (a *API) showConsent(c *fiber.Ctx) error {
	request, err := a.appRequest(c)
	if err != nil {
		c.Vary(fiber.HeaderAccept)
		if status, message := httpapi.Answer(err); status == http.StatusBadRequest && httpapi.WantsPage(c) {
			return connect.RefusedApp(c, status, message)
		}
		return err
	}
	return connect.Consent(c, connect.App{
		APIURL: a.BaseURL, Name: request.Name, Document: request.Document, Host: request.Host, Scopes: request.Scopes, Denied: a.Apps.Denied(request),
	})
}

// consentFails tells a browser, in a page, that the service can't show the consent page now.
func consentFails(c *fiber.Ctx, status int) (answered bool) {
	if c.Path() != "/oauth/authorize" || c.Method() != http.MethodGet || status < http.StatusInternalServerError || !httpapi.WantsPage(c) {
		return false
	}
	c.Vary(fiber.HeaderAccept)
	return connect.RefusedApp(c, status, "") == nil
}

// consent answers with the address to which the page sends the browser. Only the page has the
// session, so no other site can consent.
func (a *API) consent(c *fiber.Ctx, caller access.Caller) error {
	request, err := a.appRequest(c)
	if err != nil {
		return err
	}
	var body struct {
		Scopes     *[]string `json:"scopes"`
		Namespaces *[]string `json:"namespaces"`
		ExpiresAt  *string   `json:"expiresAt"`
	}
	if err := httpapi.DecodeSignIn(c, &body); err != nil {
		return err
	}
	terms := oauth.Terms{Scopes: request.Scopes}
	if body.Scopes != nil {
		if terms.Scopes, err = scopesOf(body.Scopes); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(terms.Scopes, func(s events.Scope) bool { return !slices.Contains(request.Scopes, s) }) {
		return httpapi.BadRequest("scopes must be some of those that the app asks for")
	}
	if body.Namespaces != nil {
		if terms.Namespaces, err = memory.Namespaces(*body.Namespaces); err != nil {
			return err
		}
	}
	if terms.ExpiresAt, err = a.expiryOf(body.ExpiresAt); err != nil {
		return err
	}
	redirect, err := a.Apps.Consent(caller, request, terms)
	return httpapi.Answered(c, fiber.Map{"redirect": redirect}, err)
}

// appForm reads a form, and returns the function that looks up its parameters.
func appForm(c *fiber.Ctx) (func(string) string, error) {
	if !httpapi.IsForm(c) {
		return nil, httpapi.Refuse(http.StatusUnsupportedMediaType, "body must be a form: application/x-www-form-urlencoded")
	}
	form, err := httpapi.AppForm(c)
	return func(name string) string { return form[name] }, err
}

// required are the parameters of each grant_type.
var required = map[string][]string{"": {"grant_type"}, "authorization_code": {"code", "client_id"}, "refresh_token": {"refresh_token", "client_id"}}

// missing refuses a form without one of these parameters (RFC 6749, section 5.2).
func missing(parameter func(string) string, names []string) error {
	for _, name := range names {
		if parameter(name) == "" {
			return &oauth.Error{Code: "invalid_request", Description: name + " is missing"}
		}
	}
	return nil
}

func (a *API) exchangeToken(c *fiber.Ctx) error {
	parameter, err := appForm(c)
	if err != nil {
		return err
	}
	if err := missing(parameter, required[parameter("grant_type")]); err != nil {
		return err
	}
	var granted oauth.Granted
	switch parameter("grant_type") {
	case "authorization_code":
		granted, err = a.Apps.Exchange(httpapi.Context(c), parameter)
	case "refresh_token":
		granted, err = a.Apps.Refresh(httpapi.Context(c), parameter)
	default:
		err = &oauth.Error{Code: "unsupported_grant_type", Description: "grant_type must be authorization_code or refresh_token"}
	}
	return httpapi.Answered(c, granted, err)
}

func (a *API) revokeToken(c *fiber.Ctx) error {
	parameter, err := appForm(c)
	if err != nil {
		return err
	}
	if err := missing(parameter, []string{"token"}); err != nil {
		return err
	}
	return httpapi.Answered(c, fiber.Map{}, a.Apps.Revoke(httpapi.Context(c), parameter("token"), parameter("client_id")))
}
