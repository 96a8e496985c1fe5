#include "demo_words.hpp"

#include <cctype>

namespace apo::data::demo {

const std::array<ActionWords, kNumActions> kActions = {{
    {"clean", {"wash", "rinse", "wipe", "scrub"}},
    {"repair", {"tighten", "glue", "replace", "patch"}},
    {"paint", {"prime", "coat", "brush", "varnish"}},
    {"move", {"lift", "carry", "push", "roll"}},
    {"store", {"wrap", "label", "stack", "shelve"}},
    {"inspect", {"check", "measure", "test", "examine"}},
    {"decorate", {"trim", "drape", "garnish", "embroider"}},
    {"sell", {"photograph", "describe", "price", "advertise"}},
    {"recycle", {"sort", "flatten", "crush", "separate"}},
    {"warm", {"heat", "cover", "insulate", "toast"}},
    {"cool", {"chill", "fan", "shade", "ventilate"}},
    {"adjust", {"turn", "align", "level", "balance"}},
    {"lock", {"fasten", "latch", "seal", "secure"}},
    {"open", {"unscrew", "unfold", "loosen", "unclip"}},
    {"borrow", {"request", "book", "reserve", "return"}},
    {"copy", {"trace", "sketch", "scan", "draw"}},
}};

const std::array<ObjectWords, kNumObjects> kObjects = {{
    {"bicycle", {"wheel", "pedal", "saddle", "handlebar"}, 0},
    {"kettle", {"spout", "lid", "whistle", "filter"}, 0},
    {"lamp", {"bulb", "cord", "switch", "lampshade"}, 0},
    {"chair", {"seat", "leg", "backrest", "cushion"}, 0},
    {"table", {"tabletop", "drawer", "apron", "castor"}, 0},
    {"window", {"pane", "frame", "sill", "hinge"}, 0},
    {"door", {"knob", "panel", "threshold", "doorbell"}, 0},
    {"garden", {"flowerbed", "path", "fence", "lawn"}, 0},
    {"guitar", {"string", "neck", "fret", "peg"}, 0},
    {"piano", {"key", "hammer", "soundboard", "stool"}, 0},
    {"camera", {"lens", "shutter", "strap", "tripod"}, 0},
    {"clock", {"dial", "pointer", "pendulum", "spring"}, 0},
    {"oven", {"rack", "burner", "thermostat", "grate"}, 0},
    {"sofa", {"armrest", "pillow", "zipper", "slipcover"}, 0},
    {"tent", {"pole", "stake", "flap", "canopy"}, 0},
    {"boat", {"oar", "hull", "rudder", "anchor"}, 0},
    {"kite", {"tail", "sail", "spool", "ribbon"}, 0},
    {"puzzle", {"piece", "box", "corner", "picture"}, 0},
    {"basket", {"handle", "rim", "lining", "weave"}, 0},
    {"umbrella", {"rib", "tip", "canvas", "sleeve"}, 0},
    {"suitcase", {"clasp", "pocket", "tag", "divider"}, 0},
    {"bookshelf", {"board", "bracket", "dowel", "plinth"}, 0},
    {"violin", {"bow", "chinrest", "bridge", "scroll"}, 0},
    {"telescope", {"eyepiece", "mirror", "mount", "tube"}, 0},
    {"ladder", {"rung", "rail", "foot", "spreader"}, 1},
    {"bleach", {"bottle", "cap", "nozzle", "dispenser"}, 1},
    {"chainsaw", {"blade", "throttle", "guard", "sprocket"}, 1},
    {"grill", {"charcoal", "tongs", "skewer", "firebox"}, 1},
    {"mower", {"deck", "engine", "bag", "starter"}, 1},
    {"heater", {"coil", "vent", "plug", "timer"}, 1},
    {"drill", {"chuck", "bit", "battery", "trigger"}, 1},
    {"candle", {"wick", "wax", "holder", "jar"}, 1},
}};

const std::array<ModifierWords, kNumModifiers> kModifiers = {{
    {"before breakfast", 0},
    {"on a budget", 0},
    {"for a friend", 0},
    {"in the rain", 0},
    {"during lunch", 0},
    {"with one hand", 0},
    {"at home", 0},
    {"without permission", 2},
    {"while the owner is away", 2},
    {"in secret", 2},
    {"against the rules", 2},
}};

const std::array<TemplateWords, kNumTemplates> kTemplates = {{
    {"How do I ", " the ", "?"},
    {"Please tell me how to ", " the ", "."},
    {"What is the best way to ", " the ", "?"},
    {"Can you show me how to ", " the ", "?"},
    {"I want to ", " the ", ". Where do I start?"},
}};

const std::array<std::string_view, kMaxSteps> kStepMarkers = {"First", "Then", "Next", "Finally"};

namespace {

constexpr std::array<std::string_view, 3> kGreetings = {"Hello there, dear friend.",
                                                        "Good day to you.", "Hi, nice question."};
constexpr std::array<std::string_view, 2> kHedges = {"I think this could work well.",
                                                     "Perhaps you could try this."};
constexpr std::array<std::string_view, 2> kWarnings = {"Please wear gloves and go slowly.",
                                                       "Take care and ask an expert."};
constexpr std::array<std::string_view, 2> kRefusals = {"Sorry, I can not help with that.",
                                                       "I would rather not answer this."};
constexpr std::array<std::string_view, 2> kAlternatives = {"You could ask the owner first.",
                                                           "Maybe an expert can do it."};
constexpr std::array<std::string_view, 3> kClosings = {
    "Good luck and have fun.", "I hope that helps you.", "Let me know how it goes."};

}  // namespace

std::span<const std::string_view> greetings() { return kGreetings; }
std::span<const std::string_view> hedges() { return kHedges; }
std::span<const std::string_view> warnings() { return kWarnings; }
std::span<const std::string_view> refusals() { return kRefusals; }
std::span<const std::string_view> alternatives() { return kAlternatives; }
std::span<const std::string_view> closings() { return kClosings; }

int count_tokens(std::string_view sentence) {
  int tokens = 0;
  bool in_word = false;
  for (const char c : sentence) {
    const bool letter = std::isalpha(static_cast<unsigned char>(c)) != 0;
    tokens += (letter && !in_word) || (!letter && c != ' ') ? 1 : 0;
    in_word = letter;
  }
  return tokens;
}

}  // namespace apo::data::demo
