# One configuration of the matrix: builds $(TESTS) with $(CXX) $(FLAGS) in $(DIR) and runs each, under $(RUN) if there
# is something to run it under. A test that fails leaves its log and no .passed file; make -k goes on to the next.
# It may take $(SECONDS) of the processor: a machine that is busy with something else fails none. By the clock it may
# take four times as long, should it wait for ever.
passed := $(TESTS:%=$(DIR)/%.passed)

all: $(passed)

$(DIR)/main.o: $(TREE)/tests/main.cpp
	@$(CXX) -std=c++20 $(FLAGS) -c $< -o $@

$(DIR)/%.passed: $(DIR)/%
	@ulimit -S -t $(SECONDS); timeout $$((4 * $(SECONDS))) $(RUN) $< >$(DIR)/$*.log 2>&1 && touch $@ || \
	    { echo "status $$?; 124 and 152: its time was up" >>$(DIR)/$*.log; exit 1; }

$(DIR)/%: $(TREE)/tests/test_%.cpp $(DIR)/main.o
	@$(CXX) -std=c++20 $(FLAGS) $< $(DIR)/main.o -o $@ -pthread >$(DIR)/$*.log 2>&1

# A program with a main of its own.
$(DIR)/without_exceptions: $(TREE)/tests/without_exceptions.cpp
	@$(CXX) -std=c++20 $(FLAGS) $< -o $@ -pthread >$(DIR)/without_exceptions.log 2>&1

.SECONDARY:
.PHONY: all
