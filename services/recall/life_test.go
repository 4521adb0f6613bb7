package recall

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// life is a set of memories made by rules, and questions with known answers.
type life struct {
	language  string
	memories  []string
	questions []question
}

type question struct {
	text   string
	answer int // the memory that answers it
}

// tongue has the parts of a language's memories. A verb has a form for memories and a
// form for questions. A thing has a form with the accents and endings of a memory, and
// the form that people type.
type tongue struct {
	language string
	people   []string
	places   [][2]string // "at the harbor" in a memory and in a question
	doings   [][2]string // "went sailing", "go sailing"
	details  []detail
	opening  []string // with place, doing, person
	chatter  []string // with a person
	direct   string   // asks for an opening: doing, place, person
	indirect string   // asks for a detail: what it is about, doing, place
}

// detail follows an opening, in words that other talks also use.
type detail struct {
	memory string // %s: a number or a name, which no question has
	about  string // what the question asks for
}

// newLife makes talks: an opening that says who did what where, then one or two details
// that say none of this, among chatter.
func newLife(t tongue, memories, questions int) life {
	r := rand.New(rand.NewPCG(1, uint64(len(t.language))<<8|uint64(t.language[0])))
	l := life{language: t.language}
	pick := func(n int) int { return r.IntN(n) }
	asked := map[string]bool{}
	for len(l.memories) < memories {
		person, place, doing := t.people[pick(len(t.people))], t.places[pick(len(t.places))], t.doings[pick(len(t.doings))]
		opening := fill(t.opening[pick(len(t.opening))], place[0], doing[0], person)
		l.memories = append(l.memories, opening)
		if key := place[1] + doing[1] + person; !asked[key] && len(l.questions) < questions && pick(3) == 0 {
			asked[key] = true
			l.questions = append(l.questions, question{fill(t.direct, place[1], doing[1], person), len(l.memories) - 1})
		}
		for range 1 + pick(2) {
			d := t.details[pick(len(t.details))]
			l.memories = append(l.memories, fmt.Sprintf(d.memory, fmt.Sprint(11+pick(80))))
			if key := d.about + place[1] + doing[1]; !asked[key] && len(l.questions) < questions && pick(2) == 0 {
				asked[key] = true
				text := strings.ReplaceAll(fill(t.indirect, place[1], doing[1], person), "{about}", d.about)
				l.questions = append(l.questions, question{text, len(l.memories) - 1})
			}
		}
		for range pick(4) {
			l.memories = append(l.memories, fill(t.chatter[pick(len(t.chatter))], "", "", t.people[pick(len(t.people))]))
		}
	}
	return l
}

func fill(text, place, doing, person string) string {
	return strings.NewReplacer("{place}", place, "{doing}", doing, "{person}", person).Replace(text)
}

var tongues = []tongue{
	{
		language: "en",
		people:   []string{"Anna", "Marcus", "Priya", "Tom", "Lucía", "Henrik", "Yuki", "Omar", "Grace", "Felix", "Nadia", "Victor"},
		places: [][2]string{
			{"at the harbor", "at the harbor"}, {"in the old library", "in the library"}, {"at the farmers' market", "at the farmers market"},
			{"in the botanical gardens", "in the botanical garden"}, {"at Grandma's cottage", "at grandmas cottage"}, {"by the frozen lake", "by the lake"},
			{"in the new climbing hall", "in the climbing hall"}, {"at the Café Müller", "at cafe muller"}, {"on the rooftop", "on the roof top"},
			{"in the pottery studio", "in the pottery studio"}, {"at the train museum", "at the train museum"}, {"on the northern beaches", "on the northern beach"},
		},
		doings: [][2]string{
			{"went sailing", "go sailing"}, {"bought a bicycle", "buy a bicycle"}, {"ate dumplings", "eat dumplings"}, {"taught a class on bees", "teach about bees"},
			{"drew portraits", "draw portraits"}, {"sang in the choir", "sing in the choir"}, {"found a stray kitten", "find a stray kitten"},
			{"flew kites", "fly a kite"}, {"swam before sunrise", "swim before sunrise"}, {"built a canoe", "build a canoe"}, {"wrote postcards", "write a postcard"},
			{"met the mayor", "meet the mayor"}, {"sold our piano", "sell our piano"}, {"ran a half marathon", "run a half marathon"},
		},
		details: []detail{
			{"It cost %s dollars in the end, more than planned.", "cost"}, {"We stayed for %s minutes and then the rain came.", "stay long"},
			{"The recommendation was to try number %s next time.", "recommend"}, {"I forgot my jacket on chair %s there.", "forget"},
			{"There were %s people waiting in front of us.", "people waiting"}, {"I promised to come back on day %s.", "promise"},
		},
		opening: []string{"{person} and I {doing} {place} today.", "Today we {doing} {place}, {person} came along.", "{place} with {person}: we {doing}, what a day."},
		chatter: []string{"Called {person}, nothing new.", "{person} says hello to everyone.", "Slept badly, thought about {person}.", "Rainy day, stayed in and read.", "{person} sent pictures of the dog."},
		direct:  "when did I {doing} {place} with {person}?", indirect: "what was it about {about} when we {doing} {place} with {person}?",
	},
	{
		language: "de",
		people:   []string{"Anna", "Jörg", "Priya", "Tom", "Lucía", "Henrik", "Yuki", "Omar", "Käthe", "Felix", "Nadja", "Viktor"},
		places: [][2]string{
			{"am alten Hafen", "am Hafen"}, {"in der Stadtbücherei", "in der stadtbucherei"}, {"auf dem Wochenmarkt", "auf dem Wochenmarkt"},
			{"im Gewächshaus", "im gewachshaus"}, {"in Omas Häuschen", "in Omas hauschen"}, {"am zugefrorenen See", "am See"},
			{"in der Kletterhalle", "in der Kletterhalle"}, {"im Café Müller", "im cafe muller"}, {"auf der Dachterrasse", "auf der Dachterrasse"},
			{"in der Töpferei", "in der topferei"}, {"im Eisenbahnmuseum", "im Eisenbahnmuseum"}, {"an den Stränden im Norden", "am Strand im Norden"},
		},
		doings: [][2]string{
			{"waren wir segeln", "segeln"}, {"habe ich ein Fahrrad gekauft", "ein Fahrrad kaufen"}, {"haben wir Knödel gegessen", "knodel essen"}, {"gab es einen Kurs über Bienen", "Kurs Bienen"},
			{"haben wir Porträts gezeichnet", "portrats zeichnen"}, {"haben wir im Chor gesungen", "im Chor singen"}, {"lag ein Kätzchen vor der Tür", "katzchen"},
			{"stiegen unsere Drachen hoch", "Drachen steigen"}, {"schwammen wir vor Sonnenaufgang", "schwimmen vor Sonnenaufgang"}, {"bauten wir ein Kanu", "ein Kanu bauen"}, {"schrieben wir Postkarten", "Postkarte schreiben"},
			{"trafen wir die Bürgermeisterin", "burgermeisterin treffen"}, {"verkauften wir das Klavier", "Klavier verkaufen"}, {"liefen wir den Halbmarathon", "Halbmarathon laufen"},
		},
		details: []detail{
			{"Am Ende kostete es %s Euro, mehr als geplant.", "kosten"}, {"Wir blieben %s Minuten, dann kam der Regen.", "Minuten bleiben"},
			{"Die Empfehlung war, nächstes Mal Nummer %s zu nehmen.", "Empfehlung"}, {"Meine Jacke hängt noch an Stuhl %s.", "Jacke"},
			{"Vor uns warteten %s Leute.", "Leute warten"}, {"Ich versprach, an Tag %s wiederzukommen.", "versprechen"},
		},
		opening: []string{"Heute {doing} {place}, {person} war dabei.", "{place} mit {person}: {doing}, was für ein Tag.", "Mit {person} {doing}, {place}."},
		chatter: []string{"{person} angerufen, nichts Neues.", "{person} lässt alle grüßen.", "Schlecht geschlafen, an {person} gedacht.", "Regentag, drinnen gelesen.", "{person} schickte Bilder vom Hund."},
		direct:  "wann waren wir mit {person} {place} {doing}?", indirect: "was war mit {about}, als wir {place} mit {person} waren: {doing}?",
	},
	{
		language: "ru",
		people:   []string{"Анна", "Марк", "Прия", "Фёдор", "Люся", "Генрих", "Юки", "Омар", "Алёна", "Феликс", "Надя", "Виктор"},
		places: [][2]string{
			{"в старой гавани", "гавань"}, {"в городской библиотеке", "библиотека"}, {"на субботнем рынке", "рынок"},
			{"в ботаническом саду", "ботанический сад"}, {"в бабушкином домике", "домик бабушки"}, {"у замёрзшего озера", "замерзшее озеро"},
			{"на скалодроме", "скалодром"}, {"в кафе «Мюллер»", "кафе мюллер"}, {"на крыше", "крыша"},
			{"в гончарной мастерской", "гончарная мастерская"}, {"в музее поездов", "музей поездов"}, {"на северных пляжах", "северный пляж"},
		},
		doings: [][2]string{
			{"катались под парусом", "парус"}, {"выбирали велосипед", "велосипед"}, {"ели пельмени", "пельмени"}, {"слушали рассказ о пчёлах", "рассказ про пчел"},
			{"рисовали портреты", "портрет"}, {"пели в хоре", "хор"}, {"встретили котёнка", "котенок"},
			{"запускали воздушного змея", "воздушный змей"}, {"плавали до рассвета", "плавать рассвет"}, {"строили каноэ", "строить каноэ"}, {"писали открытки", "открытка"},
			{"видели мэра города", "мэр"}, {"продавали пианино", "продавать пианино"}, {"бежали полумарафон", "полумарафон"},
		},
		details: []detail{
			{"В итоге вышло %s рублей, дороже плана.", "рубли"}, {"Пробыли %s минут, потом пошёл дождь.", "пробыли минуты"},
			{"Нам посоветовали взять номер %s в другой раз.", "посоветовали"}, {"Моя куртка осталась на стуле %s.", "куртка"},
			{"Перед нами стояла очередь: %s человек.", "очередь"}, {"Пообещали вернуться на день %s.", "пообещали вернуться"},
		},
		opening: []string{"Сегодня {doing} {place}, с нами {person}.", "{place} вместе, {person} тоже: {doing}, какой день.", "{person} и я {doing} {place}."},
		chatter: []string{"Звонок: {person}, ничего нового.", "{person} всем передаёт привет.", "Плохо спал, в мыслях {person}.", "Дождливый день, читал дома.", "Фотографии собаки: прислал друг, {person} смеётся."},
		direct:  "когда {doing} {place} {person}?", indirect: "что {about}, когда {place} {doing} {person}?",
	},
}
